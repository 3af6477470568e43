"""Targets of custom calls by what is known of them.

Source: the targets that ``jax.export`` promises to keep, in ``jax/_src/export/_export.py`` of
https://github.com/jax-ml/jax, and those that XLA itself takes for marks. Every other name is whatever somebody
registered.
"""

from __future__ import annotations

INERT = frozenset(
    """
    AllocateBuffer annotate_device_placement ApproxTopK cu_lu_pivots_to_permutation cu_threefry2x32_ffi
    cusolver_geqrf_ffi cusolver_gesvd_ffi cusolver_gesvdj_ffi cusolver_getrf_ffi cusolver_orgqr_ffi
    cusolver_potrf_ffi cusolver_syevd_ffi cusolver_sytrd_ffi cusparse_gtsv2_ffi Eigh hip_lu_pivots_to_permutation
    hip_threefry2x32_ffi hipsolver_geqrf_ffi hipsolver_gesdd_ffi hipsolver_gesvd_ffi hipsolver_gesvdj_ffi
    hipsolver_getrf_ffi hipsolver_orgqr_ffi hipsolver_potrf_ffi hipsolver_syevd_ffi hipsolver_sytrd_ffi
    lapack_cgees_ffi lapack_cgeev_ffi lapack_cgehrd_ffi lapack_cgeqrf_ffi lapack_cgesdd_ffi lapack_cgetrf_ffi
    lapack_cgtsv_ffi lapack_cheevd_ffi lapack_chetrd_ffi lapack_cpotrf_ffi lapack_ctrsm_ffi lapack_cungqr_ffi
    lapack_dgees_ffi lapack_dgeev_ffi lapack_dgehrd_ffi lapack_dgeqrf_ffi lapack_dgesdd_ffi lapack_dgetrf_ffi
    lapack_dgtsv_ffi lapack_dorgqr_ffi lapack_dpotrf_ffi lapack_dsyevd_ffi lapack_dsytrd_ffi lapack_dtrsm_ffi
    lapack_sgees_ffi lapack_sgeev_ffi lapack_sgehrd_ffi lapack_sgeqrf_ffi lapack_sgesdd_ffi lapack_sgetrf_ffi
    lapack_sgtsv_ffi lapack_sorgqr_ffi lapack_spotrf_ffi lapack_ssyevd_ffi lapack_ssytrd_ffi lapack_strsm_ffi
    lapack_zgees_ffi lapack_zgeev_ffi lapack_zgehrd_ffi lapack_zgeqrf_ffi lapack_zgesdd_ffi lapack_zgetrf_ffi
    lapack_zgtsv_ffi lapack_zheevd_ffi lapack_zhetrd_ffi lapack_zpotrf_ffi lapack_ztrsm_ffi lapack_zungqr_ffi
    LayoutConstraint LuDecomposition mhlo.acos mhlo.acosh mhlo.asin mhlo.asinh mhlo.atanh mhlo.cosh mhlo.erf
    mhlo.ragged_dot mhlo.sinh mhlo.tan mhlo.topk mhlo.uniform_dequantize mhlo.uniform_quantize
    MoveToDevice MoveToHost ProductOfElementaryHouseholderReflectors Qr shape_assertion Sharding
    SPMDFullToShardShape SPMDShardToFullShape stablehlo.dynamic_approx_top_k stablehlo.dynamic_reduce_window
    stablehlo.dynamic_rng_bit_generator stablehlo.dynamic_top_k
    xla.sdy.FuncResultSharding xla.sdy.GlobalToLocalShape xla.sdy.LocalToGlobalShape
    """.split()  # noqa: SIM905 (a list of strings would be pages)
)
"""Targets that only mark a value or compute: linear algebra, random numbers, Fourier transforms, shardings."""

PYTHON = frozenset(
    """
    xla_python_cpu_callback xla_python_gpu_callback xla_ffi_python_cpu_callback xla_ffi_python_gpu_callback
    xla_ffi_partitioned_python_cpu_callback xla_ffi_partitioned_python_gpu_callback xla_buffer_python_cpu_callback
    xla_buffer_python_gpu_callback xla_python_tpu_callback CallbackToPython
    """.split()  # noqa: SIM905 (as above)
)
"""Targets that call a function of the Python process."""
