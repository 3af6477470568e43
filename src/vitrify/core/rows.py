"""The built-in plugins. Adding one is a file in its room and a row here."""

from __future__ import annotations

from vitrify.core.format_rows import FORMATS
from vitrify.core.row import Row

_RUNTIMES = (
    Row(
        kind="runtime",
        name="estimator",
        target="vitrify.runtimes.estimator:Estimator",
        types=(
            "sklearn.base.BaseEstimator",
            "lightgbm.basic.Booster",
            "catboost.core.CatBoost",
            "xgboost.sklearn.XGBModel",
        ),
        formats=("skops", "xgboost", "lightgbm", "catboost", "pickle"),
        summary="objects with predict, predict_proba or transform, as scikit-learn has them",
    ),
    Row(
        kind="runtime",
        name="xgboost",
        target="vitrify.runtimes.xgboost:XGBoostRuntime",
        extra="xgboost",
        requires=("xgboost",),
        types=("xgboost.core.Booster",),
        formats=("xgboost",),
        summary="XGBoost's native booster",
    ),
    Row(
        kind="runtime",
        name="torch",
        target="vitrify.runtimes.torch:TorchRuntime",
        extra="torch",
        requires=("torch",),
        types=("torch.nn.modules.module.Module",),
        formats=("torch-export",),
        summary="PyTorch on the CPU",
    ),
    Row(
        kind="runtime",
        name="onnxruntime",
        target="vitrify.runtimes.onnxruntime:OnnxRuntime",
        requires=("onnxruntime",),
        types=("onnx.onnx_ml_pb2.ModelProto",),
        formats=("onnx",),
        summary="ONNX Runtime on the CPU",
    ),
    Row(
        kind="runtime",
        name="python",
        target="vitrify.runtimes.callable:CallableRuntime",
        types=("builtins.function", "builtins.object"),
        formats=("python", "pickle"),
        summary="any Python callable",
    ),
)

_TRANSFORMS = tuple(
    Row(
        kind="transform",
        name=f"{source}-to-onnx",
        target=f"vitrify.transforms.convert.{module}:{cls}",
        extra=extra,
        requires=requires,
        source=source,
        destination="onnx",
        fidelity="numeric",
        summary=summary,
    )
    for source, module, cls, extra, requires, summary in (
        ("skops", "sklearn_onnx", "SklearnToOnnx", "sklearn", ("sklearn", "skl2onnx"), "in the source's own precision"),
        (
            "xgboost",
            "xgboost_onnx",
            "XGBoostToOnnx",
            "xgboost",
            ("xgboost",),
            "casts to float32 as XGBoost does",
        ),
        ("lightgbm", "lightgbm_onnx", "LightGBMToOnnx", "lightgbm", ("lightgbm",), "trees in float64"),
        (
            "catboost",
            "catboost_onnx",
            "CatBoostToOnnx",
            "catboost",
            ("catboost",),
            "casts to float32, adds in float64",
        ),
        ("torch-export", "torch_onnx", "TorchToOnnx", "torch", ("torch", "onnxscript"), "the dynamo exporter"),
    )
)

_CHECKS = (
    Row(
        kind="check",
        name="parity",
        target="vitrify.checks.parity:Parity",
        summary="same predictions as the source, on samples and on probes made to break it",
    ),
    Row(
        kind="check",
        name="replay",
        target="vitrify.checks.replay:Replay",
        summary="golden samples give their golden outputs",
    ),
    Row(
        kind="check",
        name="scan",
        target="vitrify.checks.scan:Scan",
        summary="nothing in its files runs, reaches out or breaks a reader",
    ),
)

_STORES = (
    Row(
        kind="store",
        name="oci-layout",
        target="vitrify.stores.oci_layout:OciLayout",
        summary="OCI image layout on disk, the default",
    ),
)

_CONTAINERS = (
    Row(
        kind="container",
        name="numpy",
        target="vitrify.containers.numpy:NumpyContainer",
        types=("numpy.ndarray",),
        summary="one array",
    ),
    Row(
        kind="container",
        name="pandas",
        target="vitrify.containers.pandas:PandasContainer",
        extra="pandas",
        requires=("pandas",),
        types=("pandas.DataFrame", "pandas.core.frame.DataFrame", "pandas.Series", "pandas.core.series.Series"),
        summary="data frame, one field a column",
    ),
    Row(
        kind="container",
        name="polars",
        target="vitrify.containers.polars:PolarsContainer",
        extra="polars",
        requires=("polars",),
        types=("polars.dataframe.frame.DataFrame",),
        summary="data frame, one field a column",
    ),
    Row(
        kind="container",
        name="torch",
        target="vitrify.containers.torch:TorchContainer",
        extra="torch",
        requires=("torch",),
        types=("torch.Tensor",),
        summary="one tensor",
    ),
    Row(
        kind="container",
        name="dict",
        target="vitrify.containers.mapping:MappingContainer",
        types=("builtins.dict",),
        summary="named arrays or tensors",
    ),
    Row(
        kind="container",
        name="tuple",
        target="vitrify.containers.positional:PositionalContainer",
        types=("builtins.tuple",),
        summary="positional arrays or tensors",
    ),
    Row(
        kind="container",
        name="records",
        target="vitrify.containers.records:RecordsContainer",
        types=("builtins.list",),
        summary="a list of dicts, one a row",
    ),
)

BUILTIN: tuple[Row, ...] = (*FORMATS, *_RUNTIMES, *_TRANSFORMS, *_CHECKS, *_STORES, *_CONTAINERS)
