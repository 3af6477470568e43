"""MLflow model directories: written so that an unmodified MLflow loads them, read without running anything of theirs.

Writing. Where MLflow's own flavour calls the model as it was fitted, the model's own file is written for it:
scikit-learn as skops, XGBoost, LightGBM and CatBoost in their own formats, ONNX. Everything else becomes a
``python_function`` whose loader (:mod:`vitrify.package.mlflow_loader`) opens the whole artifact, which lies beside it.

Reading. The model file of a known flavour is packed as any other file is; a directory that Vitrify wrote gives its
artifact back, with the same digest; any other directory is sealed as it is, and predicts nowhere but in MLflow.

Source: https://mlflow.org/docs/latest/ml/model/#storage-format; tested with MLflow 3.17.
"""

from __future__ import annotations

import re
from importlib import metadata
from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts.artifact import Artifact, open_artifact
from vitrify.core import reference
from vitrify.core.document import DOCUMENT
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.package import _mlflow_flavours, _mlflow_read, _mlflow_types, _yaml
from vitrify.package._bundle import BUNDLE, bundle
from vitrify.package._carry import carry
from vitrify.package._folder import new_folder, put
from vitrify.package._mlflow_example import write_example
from vitrify.package._origin import origin, record

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vitrify.stores.oci_layout import OciLayout

FILE = "MLmodel"
FORMAT = "mlflow-model"
LOADER = "vitrify.package.mlflow_loader"
FOLLOWS = "3.17.2"
"""The MLflow whose layout is written; it reads the directories of all before it."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)


def export(artifact: Artifact, folder: Path) -> None:
    """Write an artifact as an MLflow model directory.

    Raises:
        UnsupportedModelError: It has no signature, so that nothing could predict with it.
        UsageError: Something is there already, or the artifact is encrypted.
        StoreError: The disk would not take it; nothing is left behind.
    """
    if artifact.sealed is not None:
        msg = f"{artifact} is encrypted, and MLflow would need it in the clear"
        raise UsageError(msg, remedy="decrypt it first, or export it as an archive: --as archive")
    with new_folder(folder) as new:
        if artifact.document.format == FORMAT:  # it was one, and was sealed as it is
            for name in artifact.files.names():
                if name != DOCUMENT:
                    put(new, name, artifact.files.map(name))
            return
        if artifact.document.signature is None:
            msg = f"{artifact} has no signature: no MLflow could ask it for predictions"
            remedy = "export it as a directory, or seal it with an example: vitrify pack FILE NAME --example DATA"
            raise UnsupportedModelError(msg, remedy=remedy)
        native = _mlflow_flavours.native(artifact)
        flavours, extra = native or _bundle(artifact, new)
        if native:
            _mlflow_flavours.write_files(artifact, new)
        _write_environment(artifact, new, extra)
        shown = write_example(artifact, new)
        put(new, FILE, _yaml.dump(_mlmodel(artifact, flavours, shown)))


def import_(
    folder: Path,
    name: str | None = None,
    *,
    example: Any = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Take an MLflow model directory into the store; nothing in it runs.

    Args:
        folder: The directory with the MLmodel file.
        name: ``name`` or ``name:tag``.
        example: What the model is called with; by default the directory's own input example, or rows that its
            signature describes.
        allow: Exact names of what the scan found and you trust.
        store: Where to; by default the user's store.

    Raises:
        MalformedError: The MLmodel file is none, or names a file outside the directory or one that is not there.
        CheckFailedError: The scan found something that is not a matter of names, or a link leads out.
        UntrustedCodeError: It needs a name that is not in ``allow``.
    """
    if name:
        reference.name(name)
    model = _mlflow_read.read(folder)
    where = store or stores.default_store()
    if model.loader == LOADER:
        return _unbundle(model, name, where)
    artifact, shown = _mlflow_read.seal(model, name, example=example, allow=allow, store=where)
    record(artifact, "mlflow", {**model.said(), "example": shown})
    return artifact


def _bundle(artifact: Artifact, new: Path) -> tuple[dict[str, Any], list[str]]:
    """Put the artifact into a layout beside, and return the flavour that opens it, and what that needs."""
    bundle(artifact, new)  # its one name is also the one that it gets where it is imported without another
    flavour = {"loader_module": LOADER, "data": BUNDLE, "config": {"allow": [], "runtime": None}}
    return {"python_function": flavour}, [f"vitrify=={metadata.version('vitrify')}"]


def _unbundle(model: _mlflow_read.Model, name: str | None, store: OciLayout) -> Artifact:
    inner = model.folder / model.inside("python_function", "data")
    found = open_artifact(str(inner.absolute()), store=store)
    tag = reference.name(name) if name else None
    return Artifact.of(store, carry(found, store, tag), tag)


def _mlmodel(artifact: Artifact, flavours: dict[str, Any], shown: dict[str, Any] | None) -> dict[str, Any]:
    assert artifact.document.signature is not None
    python = {**flavours["python_function"], "env": {"conda": "conda.yaml", "virtualenv": "python_env.yaml"}}
    if environment := artifact.document.environment:
        python["python_version"] = environment.python
    signature = _mlflow_types.written(artifact.document.signature)
    return {
        "flavors": {**flavours, "python_function": python},
        "metadata": {"vitrify.digest": str(artifact.digest), "vitrify.format": artifact.document.format},
        "mlflow_version": FOLLOWS,
        "model_uuid": artifact.digest.hex[:32],  # the same artifact is the same MLflow model
        **({"saved_input_example_info": shown} if shown else {}),
        **({"signature": signature} if signature else {}),
        "utc_time_created": _created(artifact),
    }


def _created(artifact: Artifact) -> str:
    """Return when the artifact was made, in MLflow's way of writing it; the epoch where nothing here says."""
    said = (one.predicate.get("when") for one in artifact.attestations)
    times = [when for when in said if isinstance(when, str) and _TIME.match(when)]
    return f"{min(times, default='1970-01-01T00:00:00')[:19].replace('T', ' ')}.000000"


def _write_environment(artifact: Artifact, new: Path, extra: list[str]) -> None:
    """Write what the model needs three times over, as MLflow wants it."""
    environment = artifact.document.environment
    pinned = environment.distributions if environment else {}
    # Behind a plus stands a build of somebody's own index, which others cannot install from theirs.
    own = [f"{name}=={version.partition('+')[0]}" for name, version in pinned.items()]
    kept = origin(artifact).get("requirements")
    needs = [str(one) for one in kept] if isinstance(kept, list) else ["mlflow", *own]
    needs = list(dict.fromkeys([*needs, *extra]))
    version = environment.python if environment else "3.11"
    put(new, "requirements.txt", "".join(f"{line}\n" for line in needs).encode())
    conda = {"channels": ["conda-forge"], "dependencies": [f"python={version}", "pip", {"pip": needs}]}
    put(new, "conda.yaml", _yaml.dump({**conda, "name": "mlflow-env"}))
    virtual = {"python": version, "build_dependencies": ["pip", "setuptools", "wheel"]}
    put(new, "python_env.yaml", _yaml.dump({**virtual, "dependencies": ["-r requirements.txt"]}))
