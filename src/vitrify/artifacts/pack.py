"""Pack: a model file, recognised by its content, becomes a sealed artifact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.artifacts.save import save
from vitrify.core.protocols import Allow
from vitrify.inspection.identify import files_at, identify_one

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.artifacts.artifact import Artifact
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
    one = identify_one(files_at(Path(path)), where=str(path), name=format)
    model = one.row.load().read(one.files, one.entry, Allow.of(allow))
    return save(
        model, name, example=example, format=one.row.name, dynamic=dynamic, description=description, store=store
    )
