"""Pack: a model file, recognised by its content, becomes a sealed artifact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.artifacts.local_files import LocalFiles
from vitrify.artifacts.save import save
from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Allow

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.row import Row
    from vitrify.stores.oci_layout import OciLayout


def pack(
    path: str | Path,
    name: str | None = None,
    *,
    example: Any = None,
    format: str | None = None,  # noqa: A002 (the field's own word)
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    description: str = "",
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Seal a model file as :func:`vitrify.save` seals a live model.

    Args:
        path: The file, or the directory of a format that is several files.
        name: As for :func:`vitrify.save`; so are ``example``, ``dynamic``, ``description`` and ``store``.
        example: What the model is called with. A graph that declares its own inputs needs none.
        format: Catalog name; by default found from the content, never from the file's name.
        dynamic: More dimensions that may change.
        description: Free text for people.
        allow: Exact dotted names of code outside the built-in allow-list that may run.
        store: Where to.

    Raises:
        UsageError: There is no such file.
        UnsupportedModelError: No format knows its content.
        MalformedError: It is not what its format allows.
        UntrustedCodeError: It needs a name that is not in ``allow``.
    """
    row = _format(Path(path), format)
    files, entry = _alone(Path(path), row)
    model = row.load().read(files, entry, Allow.of(allow))
    return save(model, name, example=example, format=row.name, dynamic=dynamic, description=description, store=store)


def describe_file(path: Path) -> dict[str, Any]:
    """Return what a model file says about itself, without running what is in it.

    Raises:
        UnsupportedModelError: No format knows its content.
    """
    row = _format(path, None)
    return {"format": row.name, **row.load().describe(*_alone(path, row))}


def _format(path: Path, name: str | None) -> Row:
    if not path.exists():
        msg = f"no such file: {path}"
        raise UsageError(msg)
    if name:
        return catalog().row("format", name)
    for row in catalog().rows("format"):
        if row.installed() and row.load().detect(path):
            return row
    known = ", ".join(row.name for row in catalog().rows("format"))
    msg = f"{path}: its content is of no format that is known here ({known})"
    raise UnsupportedModelError(msg, remedy="name it with format=..., or --format, if you know better")


def _alone(path: Path, row: Row) -> tuple[LocalFiles, dict[str, Any]]:
    """Return one file under the name that an artifact would give it, and the least entry that finds it.

    A directory is taken as it is: its files keep their names.
    """
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and not file.is_symlink())
        return LocalFiles({file.relative_to(path).as_posix(): file for file in found}), {}
    suffix = next((suffix for suffix in row.suffixes if path.name.endswith(suffix)), row.suffixes[0])
    return LocalFiles({f"model{suffix}": path}), {"file": f"model{suffix}"}
