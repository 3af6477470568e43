"""A ``.keras`` file from a live model, and back.

What Keras writes is written again without what changes from run to run: the date, addresses in memory, the order of
the archive; and without the training (optimizer, loss), which no prediction needs.
"""

from __future__ import annotations

import importlib
import json
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats._keras.call import as_array
from vitrify.formats._keras.hazards import hazards
from vitrify.formats._keras.loaded import keras
from vitrify.formats._laid_out import lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

    from vitrify.core.protocols import Files, Sink

CONFIG, METADATA, WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_TRAINING = ("optimizer",)
_MAX_REASON = 600


def write(model: Any, sink: Sink, name: str) -> dict[str, str]:
    """Write a model; return the dotted name of each class and function in it that is not Keras' own, as it is called.

    Raises:
        UnsupportedModelError: It holds what a configuration cannot say; everything is listed.
    """
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        path = Path(folder, "model.keras")
        _require_built(model)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                keras.saving.save_model(model, path)
        except Exception as error:
            msg = f"Keras cannot save this model: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
            raise UnsupportedModelError(msg, remedy="give each layer of your own a get_config") from error
        with zipfile.ZipFile(path) as archive:
            members = {one: archive.read(one) for one in archive.namelist() if not one.endswith("/")}
        config = _tidied(json.loads(members[CONFIG]))
        objects = _objects(config)
        members[CONFIG] = json.dumps(config).encode()
        members[METADATA] = json.dumps({"keras_version": keras.__version__}).encode()
        if WEIGHTS in members:
            members[WEIGHTS] = _without_training(members[WEIGHTS], Path(folder))
        with sink.path(name, "weight") as target, zipfile.ZipFile(target, "w") as archive:
            for one in (METADATA, CONFIG, *sorted(members.keys() - {METADATA, CONFIG})):
                archive.writestr(_entry(one), members[one])
    return objects


def read(files: Files, name: str, objects: Mapping[str, str], *, lambdas: bool) -> Any:
    """Return the model, which its caller has looked at and trusts; it is not compiled.

    Args:
        files: The file.
        name: Its name.
        objects: Where classes and functions that are not Keras' own are, by what the configuration calls them.
        lambdas: Whether Lambda layers may be built, which are Python code.

    Raises:
        MalformedError: Keras cannot read it.
        UnsupportedModelError: Something in it is nowhere to be found, or needs another backend.
    """
    custom = {}
    for called, dotted in objects.items():
        found = _found(dotted)
        custom.update({called: found, dotted.rpartition(".")[2]: found})
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lay_out(files, Path(folder))
        path = Path(folder, name)
        if path.suffix != ".keras":  # Keras goes by the name
            path = path.rename(Path(folder, "model.keras"))
        try:
            return keras.saving.load_model(path, custom_objects=custom, compile=False, safe_mode=not lambdas)
        except (ImportError, TypeError, NotImplementedError, AttributeError) as error:
            msg = f"Keras cannot build this model on {keras.backend.backend()}: {str(error)[:_MAX_REASON]}"
            remedy = "import the module that defines what is missing first; for another backend set KERAS_BACKEND"
            raise UnsupportedModelError(msg, remedy=remedy) from error
        except Exception as error:
            msg = f"{name}: Keras cannot read it: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
            raise MalformedError(msg, remedy="save the model again") from error


def _require_built(model: Any) -> None:
    if not model.built:
        msg = "a model that was never built has no weights to keep"
        raise UnsupportedModelError(msg, remedy="call it once on an example, or begin it with keras.Input")


def _tidied(value: Any) -> Any:
    """Return a configuration without the training, with the objects that it shares counted as they come."""
    if isinstance(value, dict):
        value.pop("compile_config", None)
    ids: dict[int, int] = {}

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            if part.get("class_name") == "DTypePolicy":  # whether layers share it depends on how they were made
                part = {key: inner for key, inner in part.items() if key != "shared_object_id"}
            return {
                key: ids.setdefault(inner, len(ids)) if key == "shared_object_id" else walk(inner)
                for key, inner in part.items()
            }
        return [walk(inner) for inner in part] if isinstance(part, list) else part

    return walk(value)


def _objects(config: Any) -> dict[str, str]:
    """Return the dotted name of what is not Keras' own, by what the configuration calls it.

    Raises:
        UnsupportedModelError: There is code in it, a path, or an object that nobody could find again.
    """
    objects: dict[str, str] = {}
    problems = []
    for finding in hazards(config, where=CONFIG):
        if finding.rule != "untrusted-global":
            problems.append(finding)
            continue
        registered = keras.saving.get_registered_object(finding.subject)
        dotted = f"{registered.__module__}.{registered.__qualname__}" if registered is not None else finding.subject
        if registered is None and (dotted.startswith("builtins.") or "." not in dotted):
            remedy = "register it with @keras.saving.register_keras_serializable(), in a module of its own"
            problems.append(
                Finding(place=finding.place, message=f"{dotted!r} has no name to find it by", remedy=remedy)
            )
        objects[finding.subject] = dotted
    if problems:
        msg = "this model holds what its configuration cannot say"
        raise UnsupportedModelError(msg, problems=_each_once(problems))
    return objects


def _each_once(problems: Iterable[Finding]) -> list[Finding]:
    return list({finding.place: finding for finding in problems}.values())


def _without_training(content: bytes, folder: Path) -> bytes:
    (before := folder / "before.h5").write_bytes(content)
    after = folder / "after.h5"
    with h5py.File(before, "r") as source, h5py.File(after, "w") as target:
        target.attrs.update(source.attrs)
        for key in sorted(source):
            if key not in _TRAINING:
                source.copy(key, target)
    return after.read_bytes()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.create_system, entry.external_attr = 3, 0o644 << 16  # the same on every system
    return entry


def _found(dotted: str) -> Any:
    """Import a class or function by its dotted name.

    Raises:
        UnsupportedModelError: It is not there.
    """
    registered = keras.saving.get_registered_object(dotted)
    if registered is not None:
        return registered
    module, _, rest = dotted.rpartition(".")
    try:
        return getattr(importlib.import_module(module), rest)
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"the model needs {dotted!r}, which cannot be imported here ({error})"
        raise UnsupportedModelError(
            msg, remedy="install the package that defines it, or import its module first"
        ) from error


def variables(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values of a model's variables by their paths; one that is shared is there once."""
    found: dict[str, np.ndarray[Any, Any]] = {}
    for variable in model.variables:
        path, count = variable.path, 0
        while path in found:
            count += 1
            path = f"{variable.path}_{count}"
        found[path] = as_array(variable.value)
    return found
