"""MLflow's own flavours: which of them takes an artifact's files as they are, and calls the model as it was fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.inspection.identify import Identity, told
from vitrify.package import _mlflow_types
from vitrify.package._folder import put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

Flavours = dict[str, Any]

_OURS = frozenset({DOCUMENT, GOLDEN, "state.json"})
_CATBOOST = frozenset({"CatBoost", "CatBoostClassifier", "CatBoostRegressor", "CatBoostRanker"})
_PROVIDERS = ("CPUExecutionProvider",)


def native(artifact: Artifact) -> tuple[Flavours, list[str]] | None:
    """Return the flavours of an artifact, with their settings, and what more they need; None where MLflow has none.

    None too where MLflow would call the model otherwise than it was fitted: with a column converted, with classes of
    a user's that its own loader would import without asking.
    """
    signature, document = artifact.document.signature, artifact.document
    if signature is None or document.code.names or _mlflow_types.written(signature) is None:
        return None
    make = _MAKERS.get(document.format)
    return make(artifact) if make else None


def write_files(artifact: Artifact, new: Path) -> None:
    """Write the files of the model that the library itself reads."""
    for name in artifact.files.names():
        if name not in _OURS:
            put(new, name, artifact.files.map(name))


def _skops(artifact: Artifact) -> tuple[Flavours, list[str]] | None:
    if "predict" not in artifact.document.entry.get("call_methods", {}).values():
        return None  # MLflow could not ask a transformer for anything
    from vitrify.formats.skops import FILE

    model = {
        "pickled_model": FILE,
        "serialization_format": "skops",
        "sklearn_version": _version(artifact, "scikit-learn"),
        "skops_trusted_types": _skops_types(artifact, FILE),
        "code": None,
    }
    python = {"loader_module": "mlflow.sklearn", "model_path": FILE, "predict_fn": "predict"}
    return {"python_function": python, "sklearn": model}, ["skops"]


def _skops_types(artifact: Artifact, file: str) -> list[str]:
    """Return every name in the file: skops asks for those that its own list lacks, and ours is another list."""
    from vitrify.formats._skops import audit, node
    from vitrify.reading.zip import opened

    root = node.read(opened(artifact.files.map(file), where=file), where=file)
    return sorted({name.dotted for name in audit.names(root, where=file)})


def _xgboost(artifact: Artifact) -> tuple[Flavours, list[str]] | None:
    from vitrify.formats.xgboost import MODEL

    model = {
        "data": MODEL,
        "model_class": _class(artifact),
        "model_format": "ubj",
        "xgb_version": _version(artifact, "xgboost"),
        "code": None,
    }
    return {"python_function": {"loader_module": "mlflow.xgboost", "data": MODEL}, "xgboost": model}, ["pandas"]


def _lightgbm(artifact: Artifact) -> tuple[Flavours, list[str]] | None:
    if _class(artifact) != "lightgbm.basic.Booster":
        return None  # MLflow keeps those of scikit-learn's interface as pickles
    from vitrify.formats.lightgbm import MODEL

    model = {
        "data": MODEL,
        "model_class": "lightgbm.basic.Booster",
        "lgb_version": _version(artifact, "lightgbm"),
        "code": None,
    }
    return {"python_function": {"loader_module": "mlflow.lightgbm", "data": MODEL}, "lightgbm": model}, ["pandas"]


def _catboost(artifact: Artifact) -> tuple[Flavours, list[str]] | None:
    kind = _class(artifact).rpartition(".")[2]
    if kind not in _CATBOOST:
        return None
    from vitrify.formats.catboost import MODEL

    model = {
        "data": MODEL,
        "model_type": kind,
        "save_format": "cbm",
        "catboost_version": _version(artifact, "catboost"),
        "code": None,
    }
    return {"python_function": {"loader_module": "mlflow.catboost", "data": MODEL}, "catboost": model}, ["pandas"]


def _onnx(artifact: Artifact) -> tuple[Flavours, list[str]] | None:
    signature = artifact.document.signature
    if signature is None or signature.container not in {"dict", "numpy"}:
        return None  # MLflow would feed the columns of a frame in a shape of its own
    from vitrify.formats.onnx import FILE

    model = {
        "data": FILE,
        "onnx_version": _version(artifact, "onnx"),
        "onnx_session_options": None,
        "providers": list(_PROVIDERS),
        "code": None,
    }
    return {"python_function": {"loader_module": "mlflow.onnx", "data": FILE}, "onnx": model}, ["onnx", "onnxruntime"]


def _class(artifact: Artifact) -> str:
    from vitrify.core.catalog import catalog

    row = catalog().row("format", artifact.document.format)
    return str(told(Identity(row, artifact.files, artifact.document.entry)).get("class", ""))


def _version(artifact: Artifact, name: str) -> str:
    """Return the version of a library that the model was made with, whichever of its builds was installed."""
    environment = artifact.document.environment
    found = environment.distributions if environment else {}
    return next((version for key, version in found.items() if key in {name, f"{name}-cpu"}), "")


_MAKERS: dict[str, Callable[[Artifact], tuple[Flavours, list[str]] | None]] = {
    "skops": _skops,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "onnx": _onnx,
}
