"""Hugging Face repositories: a directory with a card, and the cache of ``huggingface_hub`` on this machine; no network.

Writing. The artifact's files under their own names, a card ``README.md``, and the manifest, so that the digest comes
back. What transformers saved lies at the top, where ``from_pretrained`` looks for it.

Reading. A directory, or ``hf://org/name@revision``, which is found in the cache
(``models--org--name/{refs,snapshots,blobs}``): nothing is downloaded. The card's licence, tags and text are kept.

Sources: https://huggingface.co/docs/hub/model-cards, https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts.pack import pack
from vitrify.core import reference
from vitrify.core.errors import MalformedError, ReferenceNotFoundError, UsageError
from vitrify.inspection.identify import identify
from vitrify.package import _hugging_face_card, directory
from vitrify.package._folder import new_folder, only_model, opened, put
from vitrify.package._hugging_face_card import CARD, Card
from vitrify.package._origin import origin, record

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.artifacts.artifact import Artifact
    from vitrify.stores.oci_layout import OciLayout

SCHEME = "hf://"
_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9])?"
_REFERENCE = re.compile(
    rf"hf://(?P<name>(?:{_PART}/)?{_PART})(?:@(?P<rev>[A-Za-z0-9][A-Za-z0-9._/-]{{0,199}}))?", re.ASCII
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_REF = 200


def export(artifact: Artifact, folder: Path, card: Card | None = None) -> None:
    """Write an artifact as a Hugging Face repository.

    Args:
        artifact: The artifact.
        folder: The directory to make.
        card: The card's metadata; by default that of the repository it was imported from.

    Raises:
        UnsupportedModelError: A layer has no path.
        UsageError: Something is there already.
        StoreError: The disk would not take it; nothing is left behind.
    """
    known = origin(artifact).get("card")
    with new_folder(folder) as new:
        directory.fill(artifact, new)
        if CARD not in artifact.files.names():
            chosen = card or Card.of(known if isinstance(known, dict) else {})
            put(new, CARD, _hugging_face_card.write(artifact, chosen))


def import_(
    source: str | Path,
    name: str | None = None,
    *,
    example: Any = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Take a repository, or the only model in it, into the store; nothing in it runs.

    Args:
        source: The directory, or ``hf://org/name@revision`` of the cache on this machine.
        name: ``name`` or ``name:tag``.
        example: What the model is called with.
        allow: Exact names of what the scan found and you trust.
        store: Where to; by default the user's store.

    Raises:
        ReferenceNotFoundError: The cache has no such repository or revision.
        CheckFailedError: A link leads out of it, or the scan found something that is not a matter of names.
        UnsupportedModelError: No format knows it, and it does not hold exactly one model.
        CorruptError: Vitrify wrote it, and a file is not what it was.
    """
    tag = reference.name(name) if name else None
    where = store or stores.default_store()
    cached = isinstance(source, str) and source.startswith(SCHEME)
    folder = resolve(str(source)) if cached else Path(source)
    files = opened(folder)
    if directory.is_ours(files):
        return directory.take(files, tag, where, where=str(folder))
    told = _hugging_face_card.read(files)
    options = {"example": example, "description": told.description, "allow": allow, "store": where}
    artifact = pack(folder if len(identify(files)) == 1 else only_model(files, folder), name, **options)
    known = {"card": told.card.head(), "commit": folder.name if cached else ""}
    record(artifact, "hugging-face", {**known, "source": str(source) if cached else ""})
    return artifact


def resolve(text: str) -> Path:
    """Return the snapshot in the cache of this machine that ``hf://org/name@revision`` means; ``main`` without one.

    The cache lies where ``HF_HUB_CACHE`` says, else in ``HF_HOME/hub``, else in the user's cache directory.

    Raises:
        UsageError: It is no such reference.
        ReferenceNotFoundError: The cache does not have it.
        MalformedError: The cache's own files are not what they should be.
    """
    found = _REFERENCE.fullmatch(text)
    if not found or ".." in text or "--" in found["name"] or "//" in text[len(SCHEME) :]:
        msg = f"not a reference to a Hugging Face repository: {text!r:.300}"
        raise UsageError(msg, remedy="for example: hf://org/name, hf://org/name@v1.0, hf://org/name@<commit>")
    name, revision = found["name"], found["rev"] or "main"
    cache = _cache()
    folder = cache / f"models--{name.replace('/', '--')}"
    commit = revision if _COMMIT.fullmatch(revision) else _ref(folder, revision)
    snapshot = folder / "snapshots" / commit
    if not snapshot.is_dir() or snapshot.is_symlink():
        msg = f"the cache {cache} has no snapshot of {name} at {revision}"
        remedy = f"download it first: hf download {name}" + (f" --revision {revision}" if found["rev"] else "")
        raise ReferenceNotFoundError(msg, remedy=remedy)
    return snapshot


def _cache() -> Path:
    if place := os.environ.get("HF_HUB_CACHE"):
        return Path(place).expanduser()
    home = os.environ.get("HF_HOME")
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return (Path(home) if home else base).expanduser() / "hub"


def _ref(folder: Path, revision: str) -> str:
    """Return the commit that a branch or a tag was at when it was downloaded."""
    path = folder / "refs" / revision
    try:
        with path.open("rb") as stream:
            text = stream.read(_MAX_REF).decode("ascii", "replace").strip()
    except OSError as error:
        msg = f"the cache has no revision {revision!r} of {folder.name} ({error.strerror})"
        raise ReferenceNotFoundError(msg, remedy="download it first with: hf download") from error
    if not _COMMIT.fullmatch(text):
        msg = f"{path}: expected the 40 hex digits of a commit, not {text[:60]!r}"
        raise MalformedError(msg, remedy="delete that repository from the cache, and download it again")
    return text
