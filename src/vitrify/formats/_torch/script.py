"""A TorchScript file, open: its objects as inert data, its code as text."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

from vitrify.formats._torch import script_code, script_operators
from vitrify.formats._torch.dialect import ScriptDialect
from vitrify.formats._torch.elements import SIZES
from vitrify.formats._torch.layouts import PICKLE, pickles
from vitrify.formats._torch.script_graph import Drawing
from vitrify.formats._torch.tensors import Stored, tensors
from vitrify.pickles import inert
from vitrify.pickles.machine import audit
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.graph import Graph
    from vitrify.core.report import Finding
    from vitrify.formats._torch.script_code import Class, Method
    from vitrify.pickles.machine import Audit
    from vitrify.reading.zip import Zip

_OBJECTS = {PICKLE: "data/", "constants.pkl": "constants/"}
"""The pickles, and the folders of their storages."""
_PICKLED = (".pkl", ".debug_pkl")
_NOTES = ("version", "byteorder", ".data/version", ".data/serialization_id", ".format_version", ".storage_alignment")
_MAX_ALL_CODE = 48 * 1024 * 1024


class Script:
    """One file. Its members are read when they are asked for."""

    def __init__(self, archive: Zip, *, where: str) -> None:
        """Find the folder that everything is in.

        Raises:
            MalformedError: There is no object, or more than one.
        """
        self.archive = archive
        self.where = where
        names = pickles(archive)
        if len(names) != 1:
            refuse(where, f"{len(names)} objects, and a program of TorchScript has one")
        self.root = names[0].removesuffix(PICKLE)

    @cached_property
    def objects(self) -> Audit:
        """What ``data.pkl`` holds."""
        return self._audit(self.root + PICKLE)[0]

    def tensors(self) -> list[Stored]:
        """Return the tensors of the object and of the constants, each within its storage.

        Raises:
            MalformedError: One is not.
        """
        found: list[Stored] = []
        for name, folder in _OBJECTS.items():
            if self.root + name not in self.archive:
                continue
            audited, dialect = self._audit(self.root + name)
            if audited.error is not None:
                raise audited.error
            found += tensors(audited.root, where=f"{self.where}: {name}")
            for storage in dialect.storages.values():
                self._check(self.root + folder + storage.key, storage.count * SIZES[storage.type])
        return found

    def code(self) -> dict[str, str]:
        """Return the code by the name of its module.

        Raises:
            MalformedError: It is no text.
            LimitExceededError: There is more of it than in any honest file.
        """
        found: dict[str, str] = {}
        size = 0
        prefix = f"{self.root}code/"
        for name, member in self.archive.members.items():
            if name.startswith(prefix) and name.endswith(".py"):
                size += member.size
                if size > _MAX_ALL_CODE:
                    exceed(self.where, f"more than {_MAX_ALL_CODE} bytes of code")
                module = name.removeprefix(prefix).removesuffix(".py").replace("/", ".")
                found[module] = self._text(name)
        return found

    def operators(self) -> dict[str, int]:
        """Return the operators that the code mentions, with how often."""
        found = Counter(name for text in self.code().values() for name in script_operators.operators(text))
        return dict(sorted(found.items()))

    def program(self) -> tuple[dict[str, Class], dict[str, Method]]:
        """Return the classes and functions of the code by their full names."""
        classes: dict[str, Class] = {}
        functions: dict[str, Method] = {}
        for module, text in self.code().items():
            found = script_code.parse(text, module, where=f"{self.where}: code of {module}")
            classes |= found[0]
            functions |= found[1]
        return classes, functions

    @property
    def main(self) -> str:
        """The full name of the class of the whole."""
        root = self.objects.root
        return root.dotted if isinstance(root, inert.Call) else ""

    def graph(self) -> Graph:
        """Return the graph of ``forward``.

        Raises:
            MalformedError: There is no such method.
            LimitExceededError: It is too large or deep to be drawn.
        """
        classes, functions = self.program()
        if self.main not in classes or "forward" not in classes[self.main].methods:
            refuse(self.where, f"no method forward of {self.main or 'its object'} in its code")
        return Drawing(classes, functions, where=self.where).graph(self.main)

    def hazards(self) -> Iterator[Finding]:
        """Yield the findings of the container, of each pickle, and of the code."""
        yield from self.archive.findings()
        for name in self.archive.members:
            if name.endswith(_PICKLED):
                audited = self._audit(name)[0]
                yield from audited.findings
                names = (one.dotted for one in audited.names if one.dotted.startswith("__torch__.torch.classes."))
                called = (operator for one in names for operator in script_operators.operators(one))
                yield from script_operators.hazards(called, f"{self.where}: {name}")
        for module, text in self.code().items():
            yield from script_operators.hazards(script_operators.operators(text), f"{self.where}: code of {module}")
        self.tensors()

    def strangers(self) -> list[str]:
        """Return the members that are not of TorchScript."""
        known = {self.root + name for name in _NOTES}
        pickled = [name.removesuffix(".pkl") for name in self.archive.members if name.endswith(".pkl")]
        folders = (f"{self.root}code/", *(f"{name}/" for name in pickled if name.count("/") <= 1))
        return [
            name
            for name in self.archive.members
            if name not in known and not name.startswith(folders) and not name.endswith((*_PICKLED, "/"))
        ]

    def note(self, name: str) -> str:
        """Return the text of a small member; empty where there is none."""
        full = self.root + name
        return self._text(full).strip()[:100] if full in self.archive else ""

    def _audit(self, name: str) -> tuple[Audit, ScriptDialect]:
        place = f"{self.where}: {name}"
        dialect = ScriptDialect(where=place)
        return audit(self.archive.read(name), where=place, dialect=dialect), dialect

    def _text(self, name: str) -> str:
        try:
            return str(self.archive.read(name), "utf-8")
        except UnicodeDecodeError as error:
            refuse(self.where, f"member {name!r:.200} is no text ({error})")

    def _check(self, name: str, size: int) -> None:
        held = self.archive.members[name].size if name in self.archive else 0
        if held < size:
            refuse(self.where, f"storage {name!r:.200} has {held} bytes, and {size} are needed")
