"""The recipe of a hybrid artifact, ``hybrid.json``: its parts in order, and which named array goes where.

Arrays are kept under names of their own (*slots*). At first there is a slot for each input of the signature. A part
is fed from slots and fills others; a join puts columns of several slots side by side, as ``numpy.hstack`` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.document import Document
from vitrify.core.errors import ReferenceNotFoundError
from vitrify.core.wire import Value
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vitrify.core.protocols import Files

FILE = "hybrid.json"
FOLDER = "steps"
VERSION = 1
MAX_STEPS = 1000


class Source(Value, frozen=True, kw_only=True):
    """Where an array comes from.

    Attributes:
        slot: Its name.
        columns: Which of its columns, in this order; None for all.
        vector: Whether one column becomes a vector.
    """

    slot: str
    columns: tuple[int, ...] | None = None
    vector: bool = False


class Stage(Value, frozen=True, kw_only=True):
    """One step: a model of its own, or a join.

    Attributes:
        name: What people call it.
        gives: Output to slot; a join has the one output ``joined``.
        feeds: For a model, input of its signature to source.
        document: For a model, what its files mean.
        files: The model's files, as its format calls them; they lie in the step's folder.
        joined: For a join, what is put side by side.
    """

    name: str
    gives: dict[str, str]
    feeds: dict[str, Source] = {}
    document: Document | None = None
    files: tuple[str, ...] = ()
    joined: tuple[Source, ...] = ()


class Recipe(Value, frozen=True, kw_only=True):
    """All steps, and where the outputs of the whole come from."""

    version: int
    steps: tuple[Stage, ...]
    outputs: dict[str, Source]


JOINED = "joined"
"""The name of a join's one output."""


def read(files: Files) -> Recipe:
    """Return the recipe, checked: every slot is filled before it is used, every file is there.

    Raises:
        MalformedError: It is not there, of another version, or does not fit the files.
    """
    if FILE not in files.names():
        refuse("this folder", f"no file {FILE}")
    recipe = Recipe.from_json(bytes(files.map(FILE)), where=FILE)
    if recipe.version != VERSION:
        refuse(FILE, f"version {recipe.version}; this Vitrify reads {VERSION}", remedy="pip install --upgrade vitrify")
    if not 0 < len(recipe.steps) <= MAX_STEPS:
        refuse(FILE, f"{len(recipe.steps)} steps, from 1 to {MAX_STEPS} were expected")
    _require_flow(recipe)
    known = set(files.names())
    for index, stage in enumerate(recipe.steps):
        if missing := [name for name in stage.files if path(index, name) not in known]:
            refuse(FILE, f"step {index} ({stage.name!r}) names files that are not there: {', '.join(missing)}")
    return recipe


def path(index: int, name: str) -> str:
    """Return where a step's file lies in the artifact."""
    return f"{FOLDER}/{index}/{name}"


def files_of(files: Files, recipe: Recipe, index: int) -> Files:
    """Return one step's files, under the names that its format knows."""
    return _Inside(files, {name: path(index, name) for name in recipe.steps[index].files})


def _require_flow(recipe: Recipe) -> None:
    """Refuse a slot that is filled twice, or used by an output or a join before it is filled."""
    filled: set[str] = set()
    for index, stage in enumerate(recipe.steps):
        where = f"{FILE}: step {index} ({stage.name!r})"
        if stage.document is None and not stage.joined:
            refuse(where, "neither a model nor a join")
        if stage.document is not None and stage.document.signature is None:
            refuse(where, "a model without a signature")
        if stage.document is not None and stage.document.format == "hybrid":
            refuse(where, "a hybrid inside a hybrid")
        if again := filled & set(stage.gives.values()):
            refuse(where, f"fills {', '.join(sorted(again))} for the second time")
        if any(re.search(r"(^|/)\.\.?(/|$)|\\|^/|\0", name) or not name for name in stage.files):
            refuse(where, "names a file outside its folder")
        filled |= set(stage.gives.values())
    for name, source in recipe.outputs.items():
        if source.slot not in filled:
            refuse(FILE, f"output {name!r} comes from {source.slot!r}, which no step fills")


class _Inside:
    """Files of a folder under their names there: implements :class:`vitrify.core.protocols.Files`."""

    def __init__(self, files: Files, paths: dict[str, str]) -> None:
        self._files = files
        self._paths = dict(sorted(paths.items()))

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        return tuple(self._paths)

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        return self._files.read(self._path(name))

    def map(self, name: str) -> memoryview:
        """Return a file's bytes, mapped."""
        return self._files.map(self._path(name))

    def path(self, name: str) -> Path:
        """Return where a file lies."""
        return self._files.path(self._path(name))

    def _path(self, name: str) -> str:
        if name not in self._paths:
            msg = f"no file {name!r} (there are: {', '.join(self._paths)})"
            raise ReferenceNotFoundError(msg)
        return self._paths[name]


def models(recipe: Recipe) -> Iterator[tuple[int, Stage, Document]]:
    """Yield the steps that are models, with their places."""
    for index, stage in enumerate(recipe.steps):
        if stage.document is not None:
            yield index, stage, stage.document


def facts(recipe: Recipe) -> list[dict[str, Any]]:
    """Return what a page shows of the steps."""
    return [
        {
            "name": stage.name,
            "format": stage.document.format if stage.document else "join",
            "runtime": stage.document.runtime if stage.document else None,
            "from": sorted({source.slot for source in (*stage.feeds.values(), *stage.joined)}),
            "to": list(stage.gives.values()),
        }
        for stage in recipe.steps
    ]
