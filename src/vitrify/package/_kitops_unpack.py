"""What a ModelKit or a ModelPack artifact of other tools unpacks to: files by path, each checked before it is read.

A layer is a file as it is, or a tar, plain or compressed. Nothing is unpacked onto the disk here: members are views,
bounded; a link, a device, a path that leads out and a file that stands twice are refused.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import CorruptError, MalformedError
from vitrify.core.manifest import check_filepath
from vitrify.reading.compressed import expanded
from vitrify.reading.tar import Tar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files
    from vitrify.formats._modelpack.layout import Artifact, Descriptor

MAX_FILES = 100_000
_KIT = re.compile(
    r"application/vnd\.kitops\.modelkit\.(?P<kind>model|modelpart|dataset|code|docs)\.v1\.(?P<form>tar)"
    r"(?:\+(?P<packed>gzip|zstd))?"
)
_PACK = re.compile(
    r"application/vnd\.cncf\.model\.(?P<kind>weight|weight\.config|dataset|code|doc)\.v1\.(?P<form>raw|tar)"
    r"(?:\+(?P<packed>gzip|zstd))?"
)
_SECTIONS = {"modelpart": "parts", "dataset": "datasets", "code": "code", "docs": "docs"}
_AGAIN = "get the artifact again from where it came"


def unpack(files: Files, one: Artifact, *, where: str) -> dict[str, memoryview]:
    """Return an artifact's files by their paths; the config and every layer are checked against their digests.

    Args:
        files: The OCI layout.
        one: The artifact in it.
        where: What it is, for messages.

    Raises:
        CorruptError: A blob is missing, or is not what its descriptor promises.
        MalformedError: A layer is of no known kind, or holds what no honest tool writes.
        LimitExceededError: A layer expands to more than its bounds, or there are too many files.
    """
    for described in one.described:
        _checked(files, described, where)
    found: dict[str, memoryview] = {}
    taken: set[str] = set()
    for layer, base in zip(one.layers, _bases(one), strict=True):
        for path, view in _members(files, layer, base, where):
            check_filepath(path)
            if path.casefold() in taken:
                msg = f"{where}: two files of it have the path {path!r}"
                raise MalformedError(msg, remedy=_AGAIN)
            taken.add(path.casefold())
            found[path] = view
            if len(found) > MAX_FILES:
                msg = f"{where}: more than {MAX_FILES} files"
                raise MalformedError(msg)
    _require_no_file_as_a_folder(taken, where)
    return found


def _members(files: Files, layer: Descriptor, base: str, where: str) -> Iterator[tuple[str, memoryview]]:
    kind = _PACK.fullmatch(layer.media_type) or _KIT.fullmatch(layer.media_type)
    if kind is None:
        msg = f"{where}: a layer of the type {layer.media_type[:100]!r}, which is none of ModelPack's or KitOps'"
        raise MalformedError(msg, remedy="unpack it with the tool that made it, and import the directory")
    place = f"{where}: layer {layer.digest[:19]}"
    view = _checked(files, layer, where)
    if kind["packed"]:
        view = expanded(view, where=place)
    if kind["form"] == "raw":
        if not layer.path:
            msg = f"{place}: it has no path (the annotation org.cncf.model.filepath)"
            raise MalformedError(msg, remedy=_AGAIN)
        yield layer.path, view
        return
    tar = Tar(view, where=place, strict=True)
    for member in tar.members.values():
        if member.link:
            msg = f"{place}: {member.name!r:.200} is a link; layers of a model hold files and folders"
            raise MalformedError(msg, remedy=_AGAIN)
        yield posixpath.join(base, member.name), tar.read(member.name)


def _bases(one: Artifact) -> list[str]:
    """Return for each layer the folder that its members' names start from.

    Kits of newer tools name their layers' digests in the configuration, and have whole paths in the tar. In those of
    older tools the names start from the folder of the path in the Kitfile.
    """
    entries = _entries(one.config)
    if any("digest" in entry for listed in entries.values() for entry in listed):
        return ["" for _ in one.layers]
    bases = []
    seen: dict[str, int] = {}
    for layer in one.layers:
        kind = _KIT.fullmatch(layer.media_type)
        name = kind["kind"] if kind else ""
        listed, at = entries.get(name, []), seen.get(name, 0)
        seen[name] = at + 1
        path = listed[at].get("path") if at < len(listed) else None
        path = path.removeprefix("./").rstrip("/") if isinstance(path, str) else ""
        if path not in {"", "."}:
            check_filepath(path)
        bases.append(posixpath.dirname(path))
    return bases


def _entries(config: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the entries of a Kitfile by the kind of their layers; none for what is no Kitfile."""
    raw = config.get("model")
    model = raw if isinstance(raw, dict) else {}
    listed = {"model": [model] if model else [], "modelpart": model.get("parts")}
    listed |= {kind: config.get(section) for kind, section in _SECTIONS.items() if kind != "modelpart"}
    return {
        kind: [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        for kind, entries in listed.items()
    }


def _checked(files: Files, one: Descriptor, where: str) -> memoryview:
    """Return a blob's bytes, when they are what was promised."""
    if one.blob not in files.names():
        msg = f"{where}: its content {one.digest} is missing"
        raise CorruptError(msg, remedy=_AGAIN)
    view = files.map(one.blob)
    algorithm, _, code = one.digest.partition(":")
    if view.nbytes != one.size or hashlib.new(algorithm, view).hexdigest() != code:
        msg = f"{where}: {one.blob} is not what its digest and its size of {one.size} bytes promise"
        raise CorruptError(msg, remedy=_AGAIN)
    return view


def _require_no_file_as_a_folder(taken: set[str], where: str) -> None:
    folders = {path[:at] for path in taken for at, character in enumerate(path) if character == "/"}
    if both := sorted(taken & folders):
        msg = f"{where}: {both[0]!r} is a file and a folder at once"
        raise MalformedError(msg, remedy=_AGAIN)
