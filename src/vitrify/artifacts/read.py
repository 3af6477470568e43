"""Read: a model file becomes a live object, from trusted and allowed constructors only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Allow, Live
from vitrify.inspection.identify import files_at, identify_one

if TYPE_CHECKING:
    from collections.abc import Collection


def read(path: str | Path, *, format: str | None = None, allow: Collection[str] = ()) -> Any:  # noqa: A002 (the field's own word)
    """Return what a model file holds, as its own library has it, and run nothing that nobody has trusted.

    A pickle is not unpickled: Vitrify's own machine builds what it names, from an exact list of constructors. There is
    no way to trust everything.

    Args:
        path: The file, or the directory of a format that is several files.
        format: Catalog name; by default found from the content, never from the file's name.
        allow: Exact dotted names of classes and functions outside the built-in list that may be used.

    Raises:
        UsageError: There is no such file.
        UnsupportedModelError: No format knows its content, several do, or the one that does only looks at files.
        UntrustedCodeError: It needs a name that is not in ``allow``; all are listed, and nothing was run.
        MalformedError: It is not what its format allows; of an older library's pickle, what to load it with.
        MissingDependencyError: The library that the model is an object of is not installed.
    """
    one = identify_one(files_at(Path(path)), where=str(path), name=format)
    if not isinstance(one.format, Live):
        msg = f"{path} is a {one.row.name} file, of which no live object is made here"
        raise UnsupportedModelError(msg, remedy="see what it holds: vitrify inspect; seal it as it is: vitrify pack")
    return one.row.load().read(one.files, one.entry, Allow.of(allow))
