"""Keras 3: a ZIP file of the model's configuration as JSON, its weights as HDF5, and assets.

A live model is kept without its training, and without dates and addresses: the same model gives the same bytes. Classes
and functions that are not Keras' own have to be allowed by their dotted names before Keras looks for them; Lambda
layers, which are Python byte code, are not written, and not read unless ``Lambda`` is allowed.

Entry: ``file``; ``objects`` (what the configuration calls such classes, and their dotted names); ``backend``, on which
the model was saved.

Specification: https://keras.io/guides/serialization_and_saving/
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MissingDependencyError, VitrifyError
from vitrify.core.protocols import Written
from vitrify.formats._archives import one_file, parts_of
from vitrify.formats.keras_json import is_configuration
from vitrify.reading.files import HeldFiles, only
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.zip import ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._keras.saved import Saved
    from vitrify.reading.hdf5 import File
    from vitrify.reading.zip import Zip

_CONFIG, _METADATA = "config.json", "metadata.json"
_WEIGHTS = ("model.weights", ".h5")
_ASSETS = "assets/"
_FILE = "model.keras"
_BACKENDS = ("tensorflow", "jax", "torch")
_LAMBDA = "Lambda"


class Keras:
    """The `.keras` format."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a ZIP file with a configuration under Keras' name: Keras builds it before all else."""
        name = only(files)
        if name is None or not ends_like_zip(files.map(name)):
            return False
        try:
            archive = opened(files.map(name), where=name)
            members = archive.members
            beside = _METADATA in members or any(map(_holds_weights, members))
            return _CONFIG in members and (beside or is_configuration(archive.read(_CONFIG)))
        except VitrifyError:
            return False

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return version, backend, layers, inputs, outputs, tensors and how it was compiled."""
        from vitrify.formats._keras.facts import describe

        archive, where, size = _open(files, entry)
        return describe(_read(archive, where, size, tuple(_weights(archive, where))))

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the layers and the tensors between them."""
        from vitrify.formats._keras.drawing import draw

        archive, where, size = _open(files, entry)
        return draw(_read(archive, where, size).config or {})

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what in the configuration runs code or reads files, and what in the weights leads out of them."""
        from vitrify.formats._hdf5.hazards import hazards as in_weights
        from vitrify.formats._keras.hazards import hazards as in_config

        archive, where, size = _open(files, entry)
        yield from archive.findings()
        saved = _read(archive, where, size)
        yield from in_config(saved.config, where=f"{where}: {_CONFIG}")
        for file in _weights(archive, where):
            yield from in_weights(file, plain=True)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the members that are neither the configuration nor weights nor plain text that Keras reads as lines."""
        from vitrify.formats.hdf5 import around

        archive, where, _ = _open(files, entry)
        names = [name for name in archive.members if not name.endswith("/") and name not in {_CONFIG, _METADATA}]
        rest = [name for name in names if not _holds_weights(name) and not _is_text(archive, name)]
        yield from parts_of(archive, rest, where=where)
        for file in _weights(archive, where):
            yield from around(file)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a model; it is called on the example first where it was never built.

        Raises:
            UnsupportedModelError: It holds code, paths, or objects that nobody could find again; everything is listed.
            ModelError: It rejects the example.
        """
        require_backend()
        from vitrify.formats._keras import call, live

        if not model.built and example is not None:
            call.build(model, example)
        objects = live.write(model, sink, _FILE)
        trained = getattr(model, "optimizer", None) is not None
        notes = ("the training (optimizer, loss, metrics) was left out",) if trained else ()
        entry = {"file": _FILE, "objects": objects, "backend": call.backend()}
        return Written(entry=entry, names=tuple(sorted(set(objects.values()))), notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the model, not compiled.

        Raises:
            UntrustedCodeError: It has classes or functions that are not Keras' own, and ``allow`` has not all.
            MalformedError: It is no Keras file, or hides something.
            UnsupportedModelError: Something in it cannot be found, or needs another backend.
        """
        self.describe(files, entry)
        found = [finding for finding in self.hazards(files, entry) if finding.verdict == "found"]
        _, where, _ = _open(files, entry)
        if nameless := [finding for finding in found if not finding.subject]:
            refuse(where, str(nameless[0]))
        objects = {finding.subject: finding.subject for finding in found if finding.rule == "untrusted-global"}
        objects |= {called: name for called, name in entry.get("objects", {}).items() if called in objects}
        allow.require({objects.get(finding.subject, finding.subject) for finding in found}, what=where)
        require_backend(entry.get("backend"))
        from vitrify.formats._keras import live

        lambdas = any(finding.subject == _LAMBDA for finding in found)
        return live.read(files, str(entry.get("file") or only(files)), objects, lambdas=lambdas)


def require_backend(wished: str | None = None) -> None:
    """Let Keras take a backend that is installed, before it is imported: one that was asked for, or the first there is.

    Raises:
        MissingDependencyError: None is.
    """
    if "keras" in sys.modules or "KERAS_BACKEND" in os.environ:
        return
    known = dict.fromkeys([*([wished] if wished in _BACKENDS else []), *_BACKENDS])
    there = next((name for name in known if importlib.util.find_spec(name)), None)
    if there is None:
        msg = f"Keras needs one of {', '.join(_BACKENDS)}, and none is installed"
        raise MissingDependencyError(msg, remedy="pip install 'vitrify[tensorflow]'")
    os.environ["KERAS_BACKEND"] = there


def _holds_weights(name: str) -> bool:
    return name.startswith(_WEIGHTS[0]) and name.endswith(_WEIGHTS[1])


def _open(files: Files, entry: Mapping[str, Any]) -> tuple[Zip, str, int]:
    view, where = one_file(files, entry)
    return opened(view, where=where), where, len(view)


def _read(archive: Zip, where: str, size: int, weights: tuple[File, ...] = ()) -> Saved:
    from vitrify.formats._keras.saved import Saved, produced_by

    config, metadata = (_object(archive, name, where, size) for name in (_CONFIG, _METADATA))
    if not config:
        refuse(where, "no configuration in it")
    training = config.get("compile_config")
    version, date = metadata.get("keras_version"), metadata.get("date_saved")
    facts = {**produced_by(version), **({"date": date} if isinstance(date, str) else {})}
    return Saved(where, config, training if isinstance(training, dict) else None, weights, facts)


def _object(archive: Zip, name: str, where: str, size: int) -> dict[str, Any]:
    """Return a member that is a JSON object, an empty one where there is none; its size is looked at first."""
    from vitrify.formats._keras.saved import FREE, read_json

    if name not in archive.members:
        return {}
    if (unpacked := archive.members[name].size) > FREE + size:
        exceed(where, f"{name} unpacks to {unpacked} bytes, in a file of {size}")
    return read_json(archive.read(name), where=f"{where}: {name}", size=size) or {}


def _weights(archive: Zip, where: str) -> Iterator[File]:
    from vitrify.reading.hdf5 import File as Hdf5File

    for name in archive.members:
        if _holds_weights(name):
            # Without its checksum: nothing in it runs, and reading 1 GB to find out would be all the work there is.
            yield Hdf5File(archive.view_raw(name), where=f"{where}: {name}")


def _is_text(archive: Zip, name: str) -> bool:
    """Say whether a member is a list of words that a layer reads: text, and no pickle, which may look like it."""
    from vitrify.core.catalog import catalog

    if not name.startswith(_ASSETS):
        return False
    head = archive.head(name, 512)
    if not head or any(byte < 9 or 13 < byte < 32 for byte in head):  # noqa: PLR2004 (control characters but spaces)
        return False
    content = archive.read(name)
    try:
        str(content, "utf-8")
    except ValueError:
        return False
    alone = HeldFiles({name: content})
    return not any(row.look().detect(alone) for row in catalog().rows("format") if row.name in {"pickle", "joblib"})
