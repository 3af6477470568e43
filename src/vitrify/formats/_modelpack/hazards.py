"""What can be wrong with a model as an OCI artifact: paths that leave it, content that is not what was promised."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.manifest import check_filepath
from vitrify.core.report import Finding
from vitrify.formats._loose import mapping
from vitrify.formats._modelpack import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files
    from vitrify.formats._modelpack.layout import Descriptor

_HASHED = 64 * 1024 * 1024
"""Bytes of a blob that is hashed here; loading hashes every one of them."""


def of_layout(files: Files) -> Iterator[Finding]:
    """Yield findings about every manifest of a layout, and about what it refers to."""
    names = set(files.names())
    files.map(layout.LAYOUT)
    for one in layout.artifacts(files):
        for descriptor in (*one.described, *one.layers):
            yield from _content(files, names, descriptor)
        paths = [layer.path for layer in one.layers if layer.path]
        for path in paths:
            if not is_inside(path):
                yield _outside(one.blob, path)
        if len({path.casefold() for path in paths}) != len(paths):
            yield Finding(
                place=one.blob,
                message="two files of one artifact go to the same path: which of them is meant is not known",
                rule="duplicate-name",
                subject=one.digest,
            )


def of_kit(kit: dict[str, Any]) -> Iterator[Finding]:
    """Yield paths of a Kitfile that leave its directory."""
    for path in kit_paths(kit):
        if not is_inside(path.removeprefix("./").rstrip("/") or "x") and path not in {".", "./"}:
            yield _outside(layout.KITFILE, path)


def kit_paths(kit: dict[str, Any]) -> list[str]:
    """Return every path that a Kitfile names."""
    model = mapping(kit.get("model"))
    listed = [model, *layout.sequence(model.get("parts"))]
    for key in ("code", "datasets", "docs", "prompts"):
        listed += layout.sequence(kit.get(key))
    paths = (mapping(one).get("path") for one in listed)
    return [path for path in paths if isinstance(path, str)]


def is_inside(path: str) -> bool:
    """Say whether a path stays where it is put, on every system."""
    try:
        check_filepath(path)
    except MalformedError:
        return False
    return True


def _outside(place: str, path: str) -> Finding:
    return Finding(
        place=place,
        message=f"a file that would be written to {path[:200]!r}, outside the artifact's directory",
        rule="path",
        subject=path,
    )


def _content(files: Files, names: set[str], one: Descriptor) -> Iterator[Finding]:
    """Yield what is wrong with one blob. Blobs that are absent are said to be so: a layout may be in part."""
    place = one.path or one.blob
    if one.blob not in names:
        yield Finding(
            place=place,
            message=f"its content {one.digest} is not here",
            rule="missing-file",
            subject=one.digest,
            verdict="not checked",
        )
        return
    data = files.map(one.blob)
    wrong = f"{len(data)} bytes, where {one.size} were promised" if len(data) != one.size else ""
    if not wrong and len(data) <= _HASHED:
        algorithm, _, code = one.digest.partition(":")
        wrong = "" if hashlib.new(algorithm, data).hexdigest() == code else "other bytes than its digest promises"
    if wrong:
        yield Finding(place=place, message=f"has {wrong}", rule="digest", subject=one.digest)
