"""What an MLflow directory says, and its model file sealed; nothing in it runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.artifacts.pack import pack
from vitrify.artifacts.read import read as read_file
from vitrify.artifacts.save import save, save_bare
from vitrify.artifacts.seal import attest
from vitrify.core.attestation import SCAN
from vitrify.core.errors import (
    CheckFailedError,
    MalformedError,
    MissingDependencyError,
    ModelError,
    SignatureError,
    UsageError,
)
from vitrify.core.manifest import check_filepath
from vitrify.core.wire import to_builtins
from vitrify.formats import _requirements
from vitrify.inspection.identify import files_at, identify, identify_one, told
from vitrify.inspection.scan import scan_files
from vitrify.package import _mlflow_example, _mlflow_types
from vitrify.package._folder import only_model, opened
from vitrify.reading import yaml

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Files
    from vitrify.stores.oci_layout import OciLayout

FILE, _PIP = "MLmodel", "requirements.txt"
_MAX_TEXT = 1024 * 1024
_SAID = ("mlflow_version", "run_id", "model_id", "model_uuid", "utc_time_created", "metadata")

_MODEL_KEYS = {
    "sklearn": ("pickled_model",),
    "xgboost": ("data",),
    "lightgbm": ("data",),
    "catboost": ("data",),
    "onnx": ("data",),
    "keras": ("data",),
    "tensorflow": ("saved_model_dir", "data"),
    "statsmodels": ("data",),
    "transformers": ("model_binary",),
}
"""The flavours whose model is one file or folder of a format of ours, and the setting that says which."""

_XGBOOST = {
    f"xgboost.sklearn.{name}": name
    for name in ("XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor", "XGBModel")
}
_UNFIT = (ModelError, SignatureError, UsageError, MissingDependencyError, CheckFailedError)


@dataclass(frozen=True)
class Model:
    """An MLflow directory, its MLmodel file parsed.

    Attributes:
        folder: Where it lies.
        files: Its files.
        raw: The MLmodel file.
        flavours: Settings by name.
    """

    folder: Path
    files: Files
    raw: dict[str, Any]
    flavours: dict[str, dict[str, Any]]

    @property
    def loader(self) -> str:
        """The module that MLflow would import to open it."""
        return str(self.flavours.get("python_function", {}).get("loader_module", ""))

    def inside(self, flavour: str, key: str) -> str:
        """Return a path that a flavour names.

        Raises:
            MalformedError: It names none, one outside the directory, or one that is not there.
        """
        path = self.flavours[flavour].get(key)
        where = f"{FILE}: flavors.{flavour}.{key}"
        if not isinstance(path, str):
            msg = f"{where}: expected the path of the model, not {str(path)[:80]!r}"
            raise MalformedError(msg)
        check_filepath(path)
        names = self.files.names()
        if path not in names and not any(name.startswith(f"{path}/") for name in names):
            msg = f"{where}: there is no {path!r} in the directory"
            raise MalformedError(msg, remedy="get the directory again, with all its files")
        return path

    def said(self) -> dict[str, Any]:
        """Return what the directory says besides the model, as JSON."""
        kept = {key: self.raw.get(key) for key in _SAID} | {"signature": self.raw.get("signature")}
        flavours = {name: {key: _plain(item) for key, item in one.items()} for name, one in self.flavours.items()}
        return {**_plain(kept), "flavours": flavours, "requirements": self.requirements()}

    def requirements(self) -> list[str]:
        """Return the lines of the list of packages that come with it."""
        if _PIP not in self.files.names():
            return []
        view = self.files.map(_PIP)
        if view.nbytes > _MAX_TEXT:
            msg = f"{_PIP}: {view.nbytes} bytes of requirements"
            raise MalformedError(msg)
        return _requirements.lines(bytes(view).decode(errors="replace"))


def read(folder: Path) -> Model:
    """Return a directory's MLmodel file, its flavours known to be mappings.

    Raises:
        MalformedError: There is none, it is no YAML that is read here, or has no flavours.
        CheckFailedError: A link leads out of the directory.
    """
    files = opened(folder)
    if FILE not in files.names():
        msg = f"{folder} has no file {FILE}"
        raise MalformedError(msg, remedy="name the directory that mlflow's save_model has written")
    raw = yaml.parse(files.map(FILE), where=FILE)
    flavours = raw.get("flavors") if isinstance(raw, dict) else None
    if not isinstance(flavours, dict) or not flavours or not all(isinstance(one, dict) for one in flavours.values()):
        msg = f"{FILE}: no flavors, of which a model has one at least"
        raise MalformedError(msg)
    return Model(folder, files, raw, flavours)


def seal(
    model: Model, name: str | None, *, example: Any, allow: Collection[str], store: OciLayout
) -> tuple[Artifact, str]:
    """Seal the model, and say where its example came from.

    An example of the caller's must fit. One of the directory's, or made up, may not: then the model is kept without.
    """
    if _model(model)[0] is None:  # of no flavour that is known here, or with code of its own: kept whole, as it is
        return pack(model.folder, name, format="mlflow-model", allow=allow, store=store), ""
    # These come first: what is wrong with the directory is said before any work.
    ports = _mlflow_types.read(model.raw, "inputs")
    tried: list[tuple[Any, str]] = []
    if example is not None:
        tried = [(example, "given")]
    else:
        own = _mlflow_example.read_example(model.files, model.raw, ports)
        tried = [(own, _mlflow_example.EXAMPLE)] if own is not None else []
        tried.append((_mlflow_example.made_up(ports), "made up from the signature"))
        tried = [(one, source) for one, source in tried if one is not None]
    for one, source in tried:
        try:
            return _sealed(model, name, one, allow=allow, store=store), source
        except _UNFIT as error:
            if example is not None or (isinstance(error, CheckFailedError) and error.report.check == "scan"):
                raise
    return _sealed(model, name, None, allow=allow, store=store), ""


def _model(model: Model) -> tuple[str | None, str]:
    """Return the path of the model inside the directory, and its flavour; none where it has code of its own."""
    if any(one.get("code") for one in model.flavours.values()):
        return None, ""
    for flavour, keys in _MODEL_KEYS.items():
        for key in keys:
            if key in model.flavours.get(flavour, {}):
                return model.inside(flavour, key), flavour
    return None, ""


def _sealed(model: Model, name: str | None, example: Any, *, allow: Collection[str], store: OciLayout) -> Artifact:
    path, kind = _model(model)
    assert path is not None
    place = model.files.path(path) if path in model.files.names() else model.folder / path
    if kind == "xgboost" and (wrapper := _XGBOOST.get(str(model.flavours[kind].get("model_class")))):
        return _sealed_wrapper(place, wrapper, name, example, store)
    if kind == "onnx" and example is not None:
        example = _by_input(place, example)
    if place.is_dir() and len(identify(inner := opened(place))) != 1:
        place = only_model(inner, place)
    return pack(place, name, example=example, allow=allow, store=store)


def _sealed_wrapper(place: Path, wrapper: str, name: str | None, example: Any, store: OciLayout) -> Artifact:
    """Seal one of XGBoost's estimators: the file holds the booster, MLmodel says what stands around it."""
    files = files_at(place)
    report = scan_files(files)
    if found := [finding for finding in report.findings if finding.verdict == "found"]:
        listed = "\n".join(f"  - {finding}" for finding in found)
        msg = f"{place} was not imported, because of what its scan found:\n{listed}"
        raise CheckFailedError(msg, report=report, remedy="get the file from its maker again, or do not use it")
    read_file(place, format="xgboost")  # XGBoost's own reader crashes on files that this one refuses
    try:
        import xgboost
    except ImportError as error:
        msg = "xgboost is not installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[xgboost]'") from error
    live = getattr(xgboost, wrapper)()
    live.load_model(bytearray(files.read(files.names()[0])))
    bare = example is None
    artifact = save_bare(live, name, store=store) if bare else save(live, name, example=example, store=store)
    attest(store, artifact.digest, SCAN, to_builtins(report))
    return artifact


def _by_input(place: Path, example: Any) -> Any:
    """Return an example for a graph: a dict with an array an input, of the types that it declares."""
    import numpy as np

    ports = {str(one["name"]): str(one.get("type")) for one in told(_graph(place)).get("inputs", [])}
    if isinstance(example, np.ndarray) and len(ports) == 1:
        example = {next(iter(ports)): example}
    if isinstance(example, dict) and example.keys() == ports.keys():
        return {name: np.asarray(one, ports[name]) if _is_number(ports[name]) else one for name, one in example.items()}
    msg = f"the example is for other inputs than the graph's: {', '.join(ports)}"
    raise SignatureError(msg)


def _graph(place: Path) -> Any:
    return identify_one(files_at(place), where=str(place))


def _is_number(dtype: str) -> bool:
    return dtype.rstrip("0123456789") in {"float", "int", "uint", "bool"}


def _plain(value: Any) -> Any:
    """Return a value of YAML as JSON: numbers that JSON lacks become text."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
    return value
