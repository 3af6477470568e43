"""What an OpenSSF model signature says about files, and whether they are so; who signed is another question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify import stores
from vitrify.core.errors import UsageError
from vitrify.core.report import Finding
from vitrify.trust._bundle import Resource, below, statement
from vitrify.trust._directory import Listing, listing, order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from vitrify.core.digest import Digest
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust._bundle import Signed

SIGNATURE_FILE = "model.sig"
"""Where a directory's signature is looked for when nobody says."""

DOCUMENTS = (".modelpack/manifest.json", ".modelpack/config.json")
"""Where a directory that an artifact was exported to has the OCI manifest and configuration, byte for byte; with the
first, a signature over the directory's files covers the artifact's digest."""

_GIT = (".git", ".gitattributes", ".github", ".gitignore")


def directory_statement(root: Path, file: Path) -> bytes:
    """Return what is signed for a directory: all its files but git's own and the signature file.

    Raises:
        UsageError: It is no directory, is empty, or holds what cannot be signed.
        LimitExceededError: More files, or deeper folders, than are read.
        StoreError: Something cannot be read.
    """
    inside = _inside(root, file)
    ignored = (*_GIT, *((inside,) if inside else ()))
    found = listing(root, ignored)
    if found.odd:
        msg = f"{root} holds what cannot be signed: {_list(f'{name} ({why})' for name, why in found.odd.items())}"
        raise UsageError(msg, remedy="replace links by what they lead to, and take the rest away")
    return _statement(root.resolve().name, found.files, ignored)


def artifact_statement(store: OciLayout, digest: Digest, name: str) -> bytes:
    """Return what is signed for the directory that an artifact is exported to; no file is hashed again.

    Raises:
        ReferenceNotFoundError: The store does not have it.
        UsageError: A file has no path, or lies where git's own would.
    """
    files = _files(store, digest)
    ignored = (*_GIT, SIGNATURE_FILE)
    if bad := [path for path in files if below(path, ignored)]:
        msg = f"the artifact has files that a signature over a directory leaves out: {_list(bad)}"
        raise UsageError(msg, remedy="sign the artifact itself: vitrify sign REFERENCE --key KEY")
    return _statement(name, dict(sorted(files.items(), key=lambda item: order(item[0]))), ignored)


def compare_directory(
    root: Path, file: Path, signed: Signed, unsigned: Collection[str]
) -> tuple[list[Finding], dict[str, Any]]:
    """Return every difference between what was signed and what lies in a directory, and the figures of a report.

    Raises:
        UsageError: It is no directory.
        LimitExceededError: More files, or deeper folders, than are read.
        StoreError: Something cannot be read.
    """
    ignored = signed.predicate.ignored
    inside = _inside(root, file)
    accepted = {name for name in _GIT if below(name, ignored)} | ({inside} if inside else set())
    # Nothing that somebody signed is skipped, whatever the caller accepts.
    accepted |= {name for name in unsigned if not any(below(path, {name}) for path in signed.files)}
    found = listing(root, accepted)
    left_out = [path for path in found.skipped if path != inside]
    return _compare(signed.files, found, ignored), {"files": len(found.files), "unsigned": left_out}


def compare_artifact(store: OciLayout, digest: Digest, signed: Signed) -> tuple[list[Finding], dict[str, Any]]:
    """Return every difference between what was signed and the files of an artifact, and the figures of a report."""
    files = _files(store, digest)
    return _compare(signed.files, Listing(files, {}, ()), ()), {"files": len(files), "unsigned": []}


def _files(store: OciLayout, digest: Digest) -> dict[str, str]:
    manifest = stores.read_manifest(store, digest)
    files = {path: layer.content.hex for path, layer in manifest.files.items()}
    if len(files) != len(manifest.layers) or set(DOCUMENTS) & files.keys():
        msg = f"{digest} cannot be exported as a directory: a layer has no path, or the path of a document of OCI"
        raise UsageError(msg, remedy="sign the artifact itself: vitrify sign REFERENCE --key KEY")
    return {**files, **dict(zip(DOCUMENTS, (digest.hex, manifest.config.content.hex), strict=True))}


def _statement(name: str, files: Mapping[str, str], ignored: tuple[str, ...]) -> bytes:
    if not files:
        raise UsageError("there is no file to sign", remedy="name the directory that holds the model's files")
    resources = tuple(Resource(name=path, algorithm="sha256", digest=digest) for path, digest in files.items())
    return statement(name, resources, ignored).to_json()


def _compare(signed: Mapping[str, str], found: Listing, ignored: Collection[str]) -> list[Finding]:
    findings = [Finding(place=path, message=why, rule="odd-file") for path, why in found.odd.items()]
    for path in sorted(found.files.keys() - signed.keys(), key=order):
        if below(path, ignored):
            why = "is there, and the signature ignores it: nobody signed it"
            findings.append(Finding(place=path, message=why, rule="unsigned-file", remedy="take it away"))
        else:
            why = "is there, and is not among the signed files"
            findings.append(Finding(place=path, message=why, rule="extra-file", remedy="take it away"))
    missing = sorted(signed.keys() - found.files.keys(), key=order)
    findings += [Finding(place=path, message="was signed, and is not there", rule="missing-file") for path in missing]
    for path in sorted(signed.keys() & found.files.keys(), key=order):
        if signed[path] != found.files[path]:
            why = f"has SHA-256 {found.files[path]}, signed was {signed[path]}"
            findings.append(Finding(place=path, message=why, rule="changed-file"))
    return findings


def _inside(root: Path, file: Path) -> str | None:
    """Return a file's path inside a directory, if it lies there."""
    where, base = file.resolve(), root.resolve()
    return where.relative_to(base).as_posix() if where.is_relative_to(base) and where != base else None


def _list(names: Iterable[str]) -> str:
    several = list(names)
    few = 5
    return ", ".join(several[:few]) + (f" and {len(several) - few} more" if len(several) > few else "")
