"""What an OCI image layout holds: its manifests with their layers. Nothing is believed but what is there.

Sources: OCI image specification 1.1 (``image-layout.md``, ``image-index.md``, ``manifest.md``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.manifest import FILEPATH, INDEX_TYPE, MANIFEST_TYPE, REF_NAME
from vitrify.formats._loose import mapping
from vitrify.reading import json, yaml
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files

LAYOUT, INDEX, KITFILE = "oci-layout", "index.json", "Kitfile"
TITLE = "org.opencontainers.image.title"

_DIGEST = re.compile(r"sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})")
_MODEL = re.compile(r"application/vnd\.(?:cncf\.model|kitops\.modelkit)\.")
_ARCHIVE = re.compile(r"tar|gzip|zstd|zip")
_MAX_JSON = 8 * 1024 * 1024
_MAX_DOCUMENTS = 10_000
_MAX_DEPTH = 4


@dataclass(frozen=True)
class Descriptor:
    """A reference to content.

    Attributes:
        digest: As it is written.
        blob: Where the content lies in the layout.
        size: Bytes, as it is written.
        media_type: What it is.
        annotations: Text by key.
    """

    digest: str
    blob: str
    size: int
    media_type: str
    annotations: dict[str, str]

    @property
    def path(self) -> str:
        """Where the content goes when the artifact is unpacked; empty where nothing says so."""
        return self.annotations.get(FILEPATH) or self.annotations.get(TITLE, "")

    @property
    def is_archive(self) -> bool:
        """Whether the content holds files."""
        return bool(_ARCHIVE.search(self.media_type.rpartition(".")[2]))


@dataclass(frozen=True)
class Artifact:
    """One manifest.

    Attributes:
        digest: Its name.
        blob: Where it lies.
        names: What the index calls it.
        kind: Media types that say what it is.
        config: Its configuration, where that is a JSON object.
        described: Itself and its configuration, as described where they are referred to.
        layers: Its content.
        annotations: Its own.
    """

    digest: str
    blob: str
    names: tuple[str, ...]
    kind: tuple[str, ...]
    config: dict[str, Any]
    described: tuple[Descriptor, ...]
    layers: tuple[Descriptor, ...]
    annotations: dict[str, str]

    @property
    def is_model(self) -> bool:
        """Whether it says that it is a model, of ModelPack or KitOps."""
        return any(_MODEL.match(kind) for kind in self.kind)


def is_layout(files: Files) -> bool:
    """Say whether a directory is an OCI image layout."""
    return {LAYOUT, INDEX} <= set(files.names())


def is_kit(files: Files) -> bool:
    """Say whether a directory is an unpacked kit."""
    if KITFILE not in files.names() or len(files.names()) == 1:
        return False
    return b"manifestVersion" in bytes(files.map(KITFILE)[: yaml.MAX_BYTES])


def kitfile(files: Files) -> dict[str, Any]:
    """Return the Kitfile.

    Raises:
        MalformedError: It is no mapping in the YAML that is read here.
    """
    value = yaml.parse(files.map(KITFILE), where=KITFILE)
    return value if isinstance(value, dict) else refuse(KITFILE, "no mapping")


def sequence(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def artifacts(files: Files) -> Iterator[Artifact]:
    """Yield every manifest that the index leads to, once.

    Raises:
        MalformedError: A document is no JSON, or a descriptor is none.
        LimitExceededError: There are more documents than any layout of models has.
    """
    left = [(one, 0) for one in _descriptors(_read(files, INDEX), "manifests", INDEX)]
    seen: dict[str, tuple[str, ...]] = {}
    for one, _ in left:
        seen[one.digest] = (*seen.get(one.digest, ()), *filter(None, [one.annotations.get(REF_NAME)]))
    done = set()
    while left:
        one, depth = left.pop(0)
        if one.digest in done or one.blob not in files.names():
            continue
        done.add(one.digest)
        if len(done) > _MAX_DOCUMENTS or depth > _MAX_DEPTH:
            exceed(INDEX, f"more than {_MAX_DOCUMENTS} manifests, or indexes nested more than {_MAX_DEPTH} deep")
        document = _read(files, one.blob)
        if one.media_type == INDEX_TYPE or ("manifests" in document and "config" not in document):
            left += [(inner, depth + 1) for inner in _descriptors(document, "manifests", one.blob)]
        elif one.media_type in {MANIFEST_TYPE, ""} or "layers" in document:
            yield _artifact(files, one, document, seen.get(one.digest, ()))


def _artifact(files: Files, one: Descriptor, document: dict[str, Any], names: tuple[str, ...]) -> Artifact:
    config = _descriptor(document.get("config"), one.blob)
    kind = (str(document.get("artifactType", "")), config.media_type, str(one.annotations.get("artifactType", "")))
    is_json = config.media_type.endswith("json") and config.blob in files.names()
    value = json.parse(files.map(config.blob), where=config.blob, most=_MAX_JSON) if is_json else {}
    return Artifact(
        digest=one.digest,
        blob=one.blob,
        names=names,
        kind=kind,
        config=mapping(value),
        described=(one, config),
        layers=tuple(_descriptors(document, "layers", one.blob)),
        annotations=_annotations(document),
    )


def _read(files: Files, name: str) -> dict[str, Any]:
    value = json.parse(files.map(name), where=name, most=_MAX_JSON)
    return value if isinstance(value, dict) else refuse(name, "no JSON object")


def _descriptors(document: dict[str, Any], key: str, where: str) -> list[Descriptor]:
    listed = document.get(key, [])
    if not isinstance(listed, list):
        refuse(where, f"{key}: no list")
    return [_descriptor(one, where) for one in listed]


def _descriptor(value: Any, where: str) -> Descriptor:
    raw = mapping(value)
    digest, size = raw.get("digest"), raw.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or type(size) is not int or size < 0:
        refuse(where, f"a descriptor without a digest or a size ({str(value)[:80]})")
    algorithm, _, code = digest.partition(":")
    return Descriptor(digest, f"blobs/{algorithm}/{code}", size, str(raw.get("mediaType", "")), _annotations(raw))


def _annotations(raw: dict[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping(raw.get("annotations")).items()}
