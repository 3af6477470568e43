"""A file of ``torch.save``, of any age, as it is looked at: one pickle, and the storages that it refers to.

* ``zip`` (PyTorch 1.6 and later): ``NAME/data.pkl``, ``NAME/data/KEY`` for each storage, ``NAME/byteorder``.
* ``legacy``: pickles of a magic number, a version, the writer's machine, the object, and the storages' keys; then each
  storage with its count before it.
* ``tar`` (before 0.1.10): TAR members ``sys_info``, ``pickle``, ``storages``, ``tensors`` (:mod:`._torch.tar_era`).

Source: ``torch/serialization.py``, ``_save``, ``_legacy_save``, ``_legacy_load``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._torch.checkpoint import Checkpoint, assemble
from vitrify.formats._torch.dialect import TorchDialect
from vitrify.formats._torch.elements import SIZES
from vitrify.formats._torch.layouts import MAGIC, PICKLE, layout, pickles
from vitrify.formats._torch.stream import Stream
from vitrify.pickles import inert
from vitrify.pickles.machine import audit
from vitrify.reading.malformed import refuse
from vitrify.reading.tar import Tar
from vitrify.reading.zip import opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.reading.zip import Zip

_PROTOCOL = 1001
_COUNT = 8
_ORDERS = {b"little", b"big"}
_MAX_NOTE = 4096


def read(view: memoryview, *, where: str) -> Checkpoint:
    """Look at a file.

    Raises:
        MalformedError: It is of none of the layouts, or a tensor lies outside of its storage.
        LimitExceededError: It is larger or deeper than what is read from a stranger.
    """
    kind = layout(view)
    if kind == "zip":
        return _zip(opened(view, where=where), where)
    if kind == "legacy":
        return _legacy(view, where)
    if kind == "tar":
        from vitrify.formats._torch import tar_era

        return tar_era.read(Tar(view, where=where), where)
    return refuse(where, "no file of torch.save")


def _zip(archive: Zip, where: str) -> Checkpoint:
    names = pickles(archive)
    if len(names) != 1:
        refuse(where, f"{len(names)} objects ({', '.join(names)[:200]}): a file of torch.save has one")
    root = names[0].removesuffix(PICKLE)
    order = bytes(archive.read(f"{root}byteorder")) if f"{root}byteorder" in archive else b"little"
    if order not in _ORDERS:
        refuse(where, f"of a byte order that is none: {order[:20]!r}")
    notes = {
        key: _note(archive, root + name) for key, name in (("torch_zip", "version"), ("torch_file", ".format_version"))
    }
    place = f"{where}: {names[0]}"
    pickle, dialect = archive.read(names[0]), TorchDialect(where=place)
    audited = audit(pickle, where=place, dialect=dialect)
    facts = {"byte_order": order.decode(), "versions": {key: note for key, note in notes.items() if note}}
    found = (*archive.findings(), *audited.findings)
    data = _Members(archive, f"{root}data/")
    return assemble("zip", pickle, dialect, audited, where=place, findings=found, data=data, facts=facts)


def _note(archive: Zip, name: str) -> str:
    if name not in archive or archive.members[name].size > _MAX_NOTE:
        return ""
    return bytes(archive.read(name)).decode("ascii", "replace").strip()


class _Members(Mapping[str, memoryview]):
    """The storages of a ZIP file by key: each looked for when it is asked for."""

    def __init__(self, archive: Zip, folder: str) -> None:
        self._archive = archive
        self._folder = folder
        self._found: dict[str, memoryview] = {}

    def __getitem__(self, key: str) -> memoryview:
        if self._folder + key not in self._archive:
            raise KeyError(key)
        if key not in self._found:
            self._found[key] = self._archive.view_raw(self._folder + key)
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._folder) for name in self._archive.members if name.startswith(self._folder))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _legacy(view: memoryview, where: str) -> Checkpoint:
    stream = Stream(view, where=where)
    magic, protocol, system = (stream.pickle()[1].root for _ in range(3))
    little = system.get("little_endian", default=True) if isinstance(system, inert.Dict) else True
    dialect = TorchDialect(where=where)
    pickle, audited = stream.pickle(dialect)
    keys = stream.pickle()[1].root
    if magic != int.from_bytes(MAGIC, "little") or protocol != _PROTOCOL:
        refuse(where, f"protocol {inert.shown(protocol)} of torch.save, expected {_PROTOCOL}")
    data = {} if audited.error else dict(_storages(stream, keys, dialect, where))
    if stream.left:
        message = f"{stream.left} bytes after the last storage, which PyTorch does not read"
        extra = Finding(place=where, message=message, rule="trailing-bytes", remedy="get the file again")
        stream.findings.append(extra)
    order = "big" if little is False else "little"
    facts = {"byte_order": order, "versions": {"torch_file": str(_PROTOCOL)}}
    return assemble("legacy", pickle, dialect, audited, where=where, findings=stream.findings, data=data, facts=facts)


def _storages(stream: Stream, keys: Any, dialect: TorchDialect, where: str) -> Iterator[tuple[str, memoryview]]:
    """Yield the storages in the order of their keys; each begins with how many elements it has."""
    if not isinstance(keys, list):
        refuse(where, "no list of storages after the object")
    for key in keys:
        name = inert.text(key) if not isinstance(key, int) else inert.label(key)
        storage = dialect.storages.get(name or "")
        if storage is None:
            refuse(where, f"storage {inert.shown(name)} is there, but no tensor has it")
        count = int.from_bytes(stream.take(_COUNT), "little", signed=True)
        if count != storage.count:
            refuse(where, f"storage {inert.shown(name)} has {count} elements, and {storage.count} by its tensors")
        yield str(name), stream.take(count * SIZES[storage.type])
