"""The TAR files that PyTorch wrote before version 0.1.10: storages and tensors in a list each, the object besides.

``storages`` and ``tensors`` begin with a pickled count. A storage is a pickle of key, device and class, a count of
eight bytes, and its numbers. A tensor is a pickle of its key, its storage's key and its class, then its rank, sizes,
strides and offset. The object's pickle names the tensors by persistent ids.

Source: ``torch/serialization.py``, ``_legacy_load.legacy_load``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._torch.checkpoint import assemble
from vitrify.formats._torch.dialect import TorchDialect
from vitrify.formats._torch.elements import SIZES, STORAGES
from vitrify.formats._torch.stream import Stream
from vitrify.formats._torch.tensors import MAX_RANK, Storage, Stored, reach
from vitrify.pickles import inert
from vitrify.pickles.machine import audit
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._torch.checkpoint import Checkpoint
    from vitrify.reading.tar import Tar

_COUNT = 8
_RANK = 8
"""Four bytes of the rank, and four that once belonged to it."""


class _Reader(Stream):
    """One of the two lists."""

    def __init__(self, archive: Tar, name: str, where: str) -> None:
        self.where = f"{where}: {name}"
        super().__init__(archive.read(name), where=self.where)
        self._dialect = TorchDialect(where=self.where)

    def value(self) -> Any:
        """Return what the next pickle is, as inert data."""
        return self.pickle(self._dialect)[1].root

    def items(self) -> Iterator[Any]:
        """Yield the pickle at the head of each item; the caller takes what follows it."""
        count = self.value()
        if type(count) is not int or not 0 <= count <= self.left:
            refuse(self.where, f"a count that is none: {inert.shown(count)}")
        for _ in range(count):
            yield self.value()

    def number(self) -> int:
        """Take a little-endian number of eight bytes."""
        return int.from_bytes(self.take(_COUNT), "little", signed=True)


def read(archive: Tar, where: str) -> Checkpoint:
    """Look at the file.

    Raises:
        MalformedError: It is not what PyTorch wrote.
        LimitExceededError: It is larger or deeper than what is read from a stranger.
    """
    storages, data = _Reader(archive, "storages", where), {}
    known: dict[str, Storage] = {}
    for item in storages.items():
        storage = _storage(item, storages)
        known[storage.key] = storage
        data[storage.key] = storages.take(storage.count * SIZES[storage.type])
    for view in _list(storages):
        known |= _view(view, known, storages.where)
    tensors = _Reader(archive, "tensors", where)
    held = {key: stored for item in tensors.items() for key, stored in _tensor(item, known, tensors)}
    dialect = TorchDialect(where=f"{where}: pickle", known=held)
    dialect.storages.update(known)
    place = f"{where}: pickle"
    pickle = archive.read("pickle")
    audited = audit(pickle, where=place, dialect=dialect)
    system = audit(archive.read("sys_info"), where=f"{where}: sys_info")
    findings = (*archive.findings(), *system.findings, *storages.findings, *tensors.findings, *audited.findings)
    facts = {"byte_order": "little", "versions": {}}
    return assemble("tar", pickle, dialect, audited, where=place, findings=findings, data=data, facts=facts)


def _storage(item: Any, reader: _Reader) -> Storage:
    match item:
        case (key, location, inert.Global() as cls) if cls.dotted in STORAGES:
            count = reader.number()
            kind = STORAGES[cls.dotted]
            if count >= 0:
                return Storage(inert.label(key)[:100], kind, count, 0, str(location)[:100])
    return refuse(reader.where, f"a storage that is none ({inert.shown(item)})")


def _list(reader: _Reader) -> list[Any]:
    found = reader.value()
    return found if isinstance(found, list) else refuse(reader.where, "no list of views after the storages")


def _view(item: Any, known: dict[str, Storage], where: str) -> dict[str, Storage]:
    match item:
        case (key, root, int() as start, int() as count) if str(root)[:100] in known:
            whole = known[str(root)[:100]]
            if start >= 0 and count >= 0 and start + count <= whole.count:
                return {inert.label(key)[:100]: Storage(whole.key, whole.type, count, start, whole.location)}
    return refuse(where, f"a view of a storage that is none ({inert.shown(item)})")


def _tensor(item: Any, known: dict[str, Storage], reader: _Reader) -> Iterator[tuple[str, Stored]]:
    match item:
        case (key, storage, inert.Global()):
            pass
        case _:
            refuse(reader.where, f"a tensor that is none ({inert.shown(item)})")
    if storage is None:  # an empty tensor needs none
        return
    if str(storage)[:100] not in known:
        refuse(reader.where, f"a tensor of a storage that is not there ({inert.shown(storage)})")
    rank = int.from_bytes(reader.take(_RANK)[:4], "little", signed=True)
    if not 0 <= rank <= MAX_RANK:
        refuse(reader.where, f"a tensor of rank {rank}")
    numbers = [reader.number() for _ in range(2 * rank + 1)]
    shape, strides, offset = tuple(numbers[:rank]), tuple(numbers[rank:-1]), numbers[-1]
    held = known[str(storage)[:100]]
    end = reach(shape, strides, offset)
    if min(numbers) < 0 or end > held.count:
        refuse(reader.where, f"a tensor that reaches element {end} of a storage of {held.count}")
    yield inert.label(key)[:100], Stored("", held.type, shape, strides, offset, end, held)
