"""Checking a store, or an artifact: every byte is hashed again, whatever is remembered about it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from vitrify.core.errors import VitrifyError
from vitrify.core.manifest import REF_NAME
from vitrify.core.progress import track
from vitrify.core.report import Finding, Report
from vitrify.stores._graph import closure
from vitrify.stores._verified import RESTORE
from vitrify.stores.files import BlobFiles, read_document

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.digest import Digest
    from vitrify.core.manifest import Manifest
    from vitrify.stores.oci_layout import OciLayout


def fsck(store: OciLayout) -> Report:
    """Hash every blob and follow every entry of the index.

    Returns:
        What is damaged or missing, each with the artifact and the file that it belongs to; ``details`` counts
        the blobs and their bytes.
    """
    with store.kept():
        blobs = list(store.digests())
        damaged = _damaged(store, blobs)
        try:
            entries = store.index.read().manifests
        except VitrifyError as error:
            return _report(store, blobs, [_finding("index.json", error), *_loose(damaged, set())])
        findings: list[Finding] = []
        seen: set[Digest] = set()
        for entry in entries:
            place = entry.annotations.get(REF_NAME, entry.digest)
            try:
                content = closure(lambda nested: read_document(store, nested), entry.content)
            except VitrifyError as error:
                findings.append(_finding(place, error))
                seen.add(entry.content)
                continue
            seen |= content.keys()
            for digest, label in content.items():
                if damage := damaged.get(digest):
                    findings.append(_finding(f"{place}: {label}", damage))
                elif not store.place(digest).is_file():
                    findings.append(Finding(place=f"{place}: {label}", message=f"{digest} is missing", remedy=RESTORE))
        return _report(store, blobs, [*findings, *_loose(damaged, seen)])


def rehash(store: OciLayout, manifest: Manifest) -> None:
    """Hash all that a manifest needs, on all cores, whatever is remembered about it.

    Raises:
        CorruptError: The content of a file is not what the manifest promises; the message names the file.
    """

    def hashed(digest: Digest) -> Path:
        store.verified.hash(store.place(digest), digest)
        return store.place(digest)

    BlobFiles(hashed, {item.filepath or item.digest: item for item in manifest.referenced()}).verify()


def _damaged(store: OciLayout, blobs: list[Digest]) -> dict[Digest, VitrifyError]:
    def check(digest: Digest) -> VitrifyError | None:
        try:
            store.verified.hash(store.place(digest), digest)
        except VitrifyError as error:
            return error
        return None

    damaged: dict[Digest, VitrifyError] = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool, track("hashing", len(blobs)) as bar:
        for digest, error in zip(blobs, pool.map(check, blobs), strict=True):
            if error:
                damaged[digest] = error
            bar.advance()
    return damaged


def _loose(damaged: dict[Digest, VitrifyError], seen: set[Digest]) -> list[Finding]:
    """Report what is damaged and belongs to nothing."""
    return [_finding(f"blobs/sha256/{digest.hex}", error) for digest, error in damaged.items() if digest not in seen]


def _finding(place: str, error: VitrifyError) -> Finding:
    return Finding(place=place, message=error.message, remedy=error.remedy)


def _report(store: OciLayout, blobs: list[Digest], findings: list[Finding]) -> Report:
    size = sum(place.stat().st_size for place in map(store.place, blobs) if place.is_file())
    return Report(
        check="fsck",
        verdict="found" if findings else "clean",
        findings=tuple(findings),
        details={"blobs": len(blobs), "bytes": size},
    )
