"""A ``.pt2`` file as data: its graphs, the tensors that are not pickled, and what is.

It is a ZIP file: ``models/<name>.json`` is a graph, ``data/weights`` and ``data/constants`` hold raw tensors and a
JSON file that says their types and shapes, ``data/aotinductor/<name>`` is a model compiled to machine code. What a
``.pt2`` may pickle besides (custom objects, sample inputs) is not opened here.

Source: ``torch/export/pt2_archive/constants.py`` in PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.formats._torch.elements import SIZES
from vitrify.formats._torch.tensors import Storage, Stored, reach
from vitrify.reading.json import parse
from vitrify.reading.malformed import refuse
from vitrify.reading.zip import STORED, Zip, ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

_PARTS = ("weights", "constants")
_AOTI = "data/aotinductor/"
_OLDER = "serialized_exported_program.json"
"""Before PyTorch 2.7 the graph lay under this name, and all tensors were pickled."""
_MAX_NOTE = 100
SCALARS = {
    **dict(enumerate(("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32"), 1)),
    **dict(enumerate(("complex64", "complex128", "bool", "bfloat16"), 10)),
    **dict(enumerate(("uint16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 28)),
    **dict(enumerate(("float8_e8m0fnu", "uint32", "uint64"), 33)),
}
"""Element types by their number in the schema (``torch/_export/serde/schema.py``)."""


def package(view: memoryview, *, where: str) -> Package | None:
    """Return a file as a package, at the cost of a look; None where it is none."""
    if not ends_like_zip(view):
        return None
    try:
        found = Package(opened(view, where=where), where=where)
        return found if found.older or found.note("archive_format") == "pt2" else None
    except (MalformedError, LimitExceededError):
        return None


class Package:
    """One ``.pt2`` file. Its members are read when they are asked for."""

    def __init__(self, archive: Zip, *, where: str) -> None:
        """Take the folder that everything is in: the first member's, or none in an older file.

        Raises:
            MalformedError: There is no member.
        """
        self.archive = archive
        self.where = where
        first = next(iter(archive.members), None)
        if first is None:
            refuse(where, "no member")
        self.older = _OLDER in archive
        self.root = "" if self.older else first.partition("/")[0] + "/"

    @property
    def graphs(self) -> list[str]:
        """The members that are graphs."""
        return [_OLDER] if self.older else self._below("models/", ".json")

    @property
    def compiled(self) -> list[str]:
        """The members that belong to a model compiled to machine code."""
        return self._below(_AOTI)

    def graph(self) -> bytes:
        """Return the graph's text.

        Raises:
            MalformedError: There is not exactly one.
        """
        if len(self.graphs) != 1:
            refuse(self.where, f"{len(self.archive.members)} members and {len(self.graphs)} graphs, expected one graph")
        return bytes(self.stored(self.graphs[0]))

    def tensors(self) -> tuple[list[Stored], list[str]]:
        """Return the tensors that are raw, and the names of what is pickled instead.

        Raises:
            MalformedError: A tensor is not where the file says.
        """
        raw: list[Stored] = []
        pickled = self._below("", ".pt") if self.older else []
        for part in () if self.older else _PARTS:
            folder = f"{self.root}data/{part}/"
            pickled += self._below(f"data/{part}/", ".pt")
            for config in self._below(f"data/{part}/", "_config.json"):
                for name, about in self._entries(config):
                    if about.get("use_pickle") or about.get("tensor_meta") is None:
                        pickled.append(name)
                    else:
                        raw.append(self._tensor(name, folder, about))
        return raw, pickled

    def live(self) -> dict[str, torch.Tensor]:
        """Return the tensors by name, over the file's bytes; tied ones are one object.

        Raises:
            MalformedError: A tensor is not where the file says.
            UnsupportedModelError: Something that the graph needs is pickled; everything is listed.
        """
        raw, pickled = self.tensors()
        if pickled:
            msg = f"{self.where}: {len(pickled)} part(s) of this archive are pickled, and unpickling runs code"
            problems = [Finding(place=name, message="a pickle") for name in pickled]
            raise UnsupportedModelError(
                msg, problems=problems, remedy="if you trust it, load it with torch.export.load and save its module()"
            )
        made: dict[tuple[Any, ...], torch.Tensor] = {}
        for one in raw:
            if one.key not in made:
                made[one.key] = _made(one, self.archive.view_raw(one.storage.key))
        return {one.name: made[one.key] for one in raw}

    def stored(self, name: str) -> memoryview:
        """Return a member as it lies in the file, its checksum verified.

        Raises:
            MalformedError: There is none, or it is compressed, which PyTorch never does.
        """
        if name in self.archive and self.archive.members[name].method != STORED:
            refuse(self.where, f"member {name!r:.200} is compressed, which PyTorch never does")
        return self.archive.read(name)

    def note(self, name: str) -> str:
        """Return a small member's text; empty where there is none."""
        full = self.root + name
        if full not in self.archive or self.archive.members[full].size > _MAX_NOTE:
            return ""
        return bytes(self.archive.read(full)).decode("ascii", "replace").strip()

    def _below(self, folder: str, ending: str = "") -> list[str]:
        prefix = self.root + folder
        return [name for name in self.archive.members if name.startswith(prefix) and name.endswith(ending)]

    def _entries(self, config: str) -> Iterator[tuple[str, dict[str, Any]]]:
        place = f"{self.where}: {config}"
        found = parse(self.stored(config), where=place)
        entries = found.get("config") if isinstance(found, dict) else None
        if not isinstance(entries, dict) or not all(isinstance(about, dict) for about in entries.values()):
            refuse(place, "no list of tensors")
        yield from entries.items()

    def _tensor(self, name: str, folder: str, about: dict[str, Any]) -> Stored:
        place = f"{self.where}: tensor {name!r:.200}"
        try:
            meta, member = about["tensor_meta"], folder + about["path_name"]
            kind = SCALARS[meta["dtype"]]
            shape, strides = (tuple(size["as_int"] for size in meta[key]) for key in ("sizes", "strides"))
            offset = meta["storage_offset"]["as_int"]
        except (KeyError, TypeError) as error:
            refuse(place, f"described by what is no description ({type(error).__name__}: {error})")
        if any(type(number) is not int or not 0 <= number < 2**63 for number in (*shape, *strides, offset)):
            refuse(place, "a size, stride or offset that is none")
        if len(shape) != len(strides) or member not in self.archive:
            refuse(place, f"not stored, or of {len(shape)} sizes and {len(strides)} strides")
        held = self.archive.members[member]
        end = reach(shape, strides, offset)
        if end * SIZES[kind] > held.size or held.method != STORED:
            refuse(place, f"reaches byte {end * SIZES[kind]} of {held.size}, or is compressed")
        return Stored(name, kind, shape, strides, offset, end, Storage(member, kind, held.size // SIZES[kind], 0, ""))


def _made(one: Stored, data: memoryview) -> torch.Tensor:
    import torch

    kind = getattr(torch, one.type)
    if not data.nbytes:
        return torch.empty(one.shape, dtype=kind)
    raw = torch.frombuffer(data, dtype=torch.uint8)
    if raw.data_ptr() % SIZES[one.type]:
        raw = raw.clone()
    whole = raw[: one.storage.count * SIZES[one.type]].view(kind)
    return torch.as_strided(whole, one.shape, one.strides, one.offset)
