"""The built-in plugins. Adding one is a file in its room and a row here."""

from __future__ import annotations

from vitrify.core.format_rows import FORMATS
from vitrify.core.row import Row
from vitrify.core.runtime_rows import RUNTIMES
from vitrify.core.transform_rows import TRANSFORMS

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
        name="structure",
        target="vitrify.checks.structure:Structure",
        summary="takes and gives what the signature says; for what nothing here can run",
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

_RESOLVERS = (
    Row(
        kind="resolver",
        name="oci",
        target="vitrify.stores.oci_registry:OciResolver",
        summary="oci://host/name:tag, from an OCI registry",
    ),
    Row(
        kind="resolver",
        name="registry",
        target="vitrify.registry.resolver:RegistryResolver",
        summary="name@alias, from the model registry",
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

_SIGNERS = (
    Row(
        kind="signer",
        name="awskms",
        target="vitrify.trust.awskms_signer:KmsSource",
        extra="awskms",
        requires=("boto3",),
        summary="a key at Amazon's key service: awskms:///alias/release",
    ),
    Row(
        kind="signer",
        name="exec",
        target="vitrify.trust.exec_signer:ExecSource",
        summary="a program that keeps the key: exec:./sign-with-our-kms",
    ),
    Row(
        kind="signer",
        name="pkcs11",
        target="vitrify.trust.pkcs11_signer:Pkcs11Source",
        extra="pkcs11",
        requires=("pkcs11",),
        summary="a key in a hardware module: pkcs11:token=models;object=release?module-path=/usr/lib/its.so",
    ),
)

BUILTIN: tuple[Row, ...] = (*FORMATS, *RUNTIMES, *TRANSFORMS, *_CHECKS, *_STORES, *_CONTAINERS, *_SIGNERS, *_RESOLVERS)
