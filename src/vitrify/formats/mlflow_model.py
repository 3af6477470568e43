"""MLflow model directories: an ``MLmodel`` file, and beside it the model's own files, each of its own format.

``MLmodel`` is answered for here; everything else is looked at as what it is.

Source: https://mlflow.org/docs/latest/ml/model/#storage-format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.formats import _facts, _requirements
from vitrify.formats._loose import mapping
from vitrify.formats._native_file import said
from vitrify.reading import json, yaml
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files

FILE = "MLmodel"
_MAX_TEXT = 1024 * 1024
_PIP = "requirements.txt"
_ENVIRONMENTS = ("conda.yaml", "python_env.yaml")
_OWN_LOADERS = "mlflow."
_PATH_KEYS = ("code", "data", "model_path", "pickled_model", "path", "python_model", "model_code_path")


class MlflowModel:
    """The format of MLflow's models, of any flavour."""

    def detect(self, files: Files) -> bool:
        """Say whether a directory has an MLmodel file with flavours, or is that file alone."""
        if FILE not in files.names():
            return False
        try:
            return bool(_flavours(_parse(files)))
        except MalformedError:
            return bytes(files.map(FILE)[:_MAX_TEXT]).find(b"flavors:") >= 0

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return flavours with their settings, signature, versions, requirements and what it needs."""
        model = _parse(files)
        flavours = _flavours(model)
        signature = mapping(model.get("signature"))
        versions = {"mlflow": model.get("mlflow_version")} | {
            f"{name}": one[key]
            for name, one in flavours.items()
            for key in (f"{name}_version", "sklearn_version", "xgb_version", "lgb_version", "pytorch_version")
            if key in one
        }
        python = mapping(flavours.get("python_function")).get("python_version")
        return said(
            {
                "name": model.get("model_id") or model.get("run_id"),
                "library": next((name for name in flavours if name != "python_function"), "mlflow"),
                "versions": {key: str(value) for key, value in {**versions, "python": python}.items() if value},
                "flavours": {name: said(one) for name, one in flavours.items()},
                "inputs": _ports(signature.get("inputs"), f"{FILE}: signature.inputs"),
                "outputs": _ports(signature.get("outputs"), f"{FILE}: signature.outputs"),
                "settings": _ports(signature.get("params"), f"{FILE}: signature.params"),
                "needs": _requirements.lines(_text(files, _PIP)) if _PIP in files.names() else [],
                "code": any(_loads_code(one) for one in flavours.values()) or None,
                "code_files": [name for name in files.names() if name.endswith(".py")],
                "metadata": said(
                    {key: model.get(key) for key in ("utc_time_created", "run_id", "metadata", "type_hint")}
                ),
                "files": {name: len(files.map(name)) for name in files.names()},
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:  # noqa: ARG002 (the protocol's)
        """Yield modules that loading imports, code that comes along, and paths out of the directory."""
        model = _parse(files)
        for name, flavour in _flavours(model).items():
            place = f"{FILE}: flavors.{name}"
            yield from _code(place, flavour)
            for key in _PATH_KEYS:
                path = flavour.get(key)
                if isinstance(path, str) and _climbs(path):
                    yield Finding(
                        place=f"{place}.{key}",
                        message=f"points to {path[:200]!r}, outside the model's directory",
                        rule="path",
                        subject=path,
                    )
        yield from _installs(files)


def _installs(files: Files) -> Iterator[Finding]:
    """Yield what serving the model would install from elsewhere than the user's index."""
    if _PIP in files.names():
        for entry in _requirements.foreign(_requirements.lines(_text(files, _PIP))):
            yield _requirements.finding(_PIP, entry)
    for name in _ENVIRONMENTS:
        if name in files.names():
            pip, own = _requirements.of_conda(yaml.parse(files.map(name), where=name))
            for entry in (*_requirements.foreign(pip), *own):
                yield _requirements.finding(name, entry)


def _parse(files: Files) -> dict[str, Any]:
    if FILE not in files.names():
        refuse("this directory", f"no file {FILE}")
    model = yaml.parse(files.map(FILE), where=FILE)
    if not isinstance(model, dict):
        refuse(FILE, "no mapping")
    return model


def _flavours(model: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: mapping(one) for name, one in mapping(model.get("flavors")).items()}


def _climbs(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    return ".." in parts or path.startswith(("/", "\\", "~")) or ":" in parts[0]


def _loads_code(flavour: dict[str, Any]) -> bool:
    return bool(flavour.get("code")) or not str(flavour.get("loader_module", _OWN_LOADERS)).startswith(_OWN_LOADERS)


def _code(place: str, flavour: dict[str, Any]) -> Iterator[Finding]:
    loader = flavour.get("loader_module")
    if isinstance(loader, str) and not f"{loader}.".startswith(_OWN_LOADERS):
        yield Finding(
            place=f"{place}.loader_module",
            message=f"loading imports the module {loader!r} and calls a function of it",
            rule="python-code",
            subject=loader,
        )
    if code := flavour.get("code"):
        yield Finding(
            place=f"{place}.code",
            message=f"loading puts the directory {str(code)[:80]!r} first on the path of Python's imports",
            rule="python-code",
            subject=str(code),
        )
    if path := flavour.get("model_code_path"):
        yield Finding(
            place=f"{place}.model_code_path",
            message=f"the model is the Python script {str(path)[:80]!r}, which loading runs",
            rule="python-code",
            subject=str(path),
        )


def _ports(text: Any, where: str) -> list[dict[str, Any]]:
    """Return the fields of a signature: columns, or tensors; MLflow keeps them as JSON inside the YAML."""
    fields = json.parse(text.encode(), where=where, most=_MAX_TEXT) if isinstance(text, str) else text
    if not isinstance(fields, list):
        return []
    found = []
    for index, one in enumerate(map(mapping, fields)):
        tensor = mapping(one.get("tensor-spec"))
        kind = tensor.get("dtype") or one.get("type") or one.get("dtype")
        sizes = tensor.get("shape") if tensor else [None]
        shape = (
            [size if isinstance(size, int) and size >= 0 else None for size in sizes]
            if isinstance(sizes, list)
            else None
        )
        found.append(_facts.port(str(one.get("name", index)), str(kind), shape))
    return found


def _text(files: Files, name: str) -> str:
    if len(view := files.map(name)) > _MAX_TEXT:
        exceed(name, f"{len(view)} bytes of requirements")
    return bytes(view).decode(errors="replace")
