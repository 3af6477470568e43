"""Keras 3: a ZIP file of the model's configuration as JSON, its weights as HDF5, and assets.

Specification: https://keras.io/guides/serialization_and_saving/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import VitrifyError
from vitrify.formats._archives import one_file, parts_of
from vitrify.formats.keras_json import is_configuration
from vitrify.reading.files import HeldFiles, only
from vitrify.reading.malformed import exceed, refuse
from vitrify.reading.zip import ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding
    from vitrify.formats._keras.saved import Saved
    from vitrify.reading.hdf5 import File
    from vitrify.reading.zip import Zip

_CONFIG, _METADATA = "config.json", "metadata.json"
_WEIGHTS = ("model.weights", ".h5")
_ASSETS = "assets/"


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
