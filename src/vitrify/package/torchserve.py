"""A model store of TorchServe: one ``.mar``, whose handler opens the sealed artifact inside of it.

    torchserve --start --model-store STORE --models churn=churn.mar

The archive is a ZIP file that is the same for the same artifact: no clock, no machine. Source:
https://github.com/pytorch/serve/blob/master/model-archiver/README.md.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vitrify.core.errors import UsageError
from vitrify.package._bundle import BUNDLE, bundle
from vitrify.package._folder import new_folder
from vitrify.package._served import model_name, require_open, requirements, signature_of, tag
from vitrify.reading.zip_writer import Packer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vitrify.artifacts.artifact import Artifact

MANIFEST = "MAR-INF/MANIFEST.json"
HANDLER = "vitrify_handler.py"
REQUIREMENTS = "requirements.txt"
FOLLOWS = "0.12.0"
"""The archiver whose layout is written."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-.]*", re.ASCII)
_CHUNK = 1 << 20


def export(artifact: Artifact, folder: Path, *, allow: Collection[str] = ()) -> None:
    """Write a model store with one archive.

    Args:
        artifact: The artifact.
        folder: The directory to make.
        allow: Exact names of code that the model may run.

    Raises:
        UnsupportedModelError: It has no signature.
        UsageError: Something is there already, or it is encrypted.
        StoreError: The disk would not take it; nothing is left behind.
    """
    require_open(artifact, "TorchServe")
    signature_of(artifact)
    name = model_name(artifact)
    if not _NAME.fullmatch(name):
        msg = f"TorchServe knows no model called {name!r}"
        raise UsageError(msg, remedy="give it a name of letters, digits and . _ -: vitrify tag REF NAME")
    with new_folder(folder) as new, tempfile.TemporaryDirectory(prefix="vitrify-") as beside:
        bundle(artifact, Path(beside))
        with (new / f"{name}.mar").open("xb") as stream:
            _pack(artifact, name, Path(beside), stream, allow)


def _pack(artifact: Artifact, name: str, beside: Path, stream: BinaryIO, allow: Collection[str]) -> None:
    with Packer(stream) as archive:
        archive.add(MANIFEST, [_manifest(artifact, name)])
        archive.add(HANDLER, [_handler(allow)])
        archive.add(REQUIREMENTS, [requirements(artifact)])
        for path in sorted(one for one in (beside / BUNDLE).rglob("*") if one.is_file()):
            archive.add(path.relative_to(beside).as_posix(), _chunks(path))


def _manifest(artifact: Artifact, name: str) -> bytes:
    """Return the manifest; it says nothing of when it was made, so that the same artifact is the same archive."""
    model = {
        "modelName": name,
        "modelVersion": tag(artifact),
        "handler": HANDLER,
        "requirementsFile": REQUIREMENTS,
        "description": f"Vitrify artifact {artifact.digest}",
    }
    whole = {"runtime": "python", "model": model, "archiverVersion": FOLLOWS, "vitrifyDigest": str(artifact.digest)}
    return json.dumps(whole, indent=2).encode() + b"\n"


def _handler(allow: Collection[str]) -> bytes:
    return f"""# A model that Vitrify runs, inside of TorchServe: the sealed artifact lies beside this file.
from vitrify.serve.guest.torchserve import Handler

handle = Handler(allow={sorted(allow)!r}).handle
""".encode()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
