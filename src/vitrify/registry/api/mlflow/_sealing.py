"""From a model that a client logged to an artifact that never changes.

Its files as they are now, by digest, go into a ModelPack manifest. Nothing of it is run or parsed.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT, SCHEMA, Document
from vitrify.core.errors import UsageError
from vitrify.core.manifest import FILEPATH, MODEL_CONFIG_TYPE, Descriptor, Manifest, ModelConfig, layer_type
from vitrify.registry import requests as r
from vitrify.registry.api.mlflow import _files, logged_models, runs
from vitrify.registry.api.mlflow._paths import check_path, from_uri, pinned
from vitrify.registry.api.mlflow._shown import MLMODEL
from vitrify.registry.api.mlflow._stages import which_of
from vitrify.registry.handlers import stock
from vitrify.registry.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from vitrify.core.manifest import FileKind
    from vitrify.registry.api.mlflow._file import File
    from vitrify.registry.local import LocalBackend

FORMAT = "mlflow-model"
_RUN = re.compile(r"runs:/+(?P<run>[0-9A-Za-z_-]{1,64})/(?P<path>.+)", re.DOTALL)
_LOGGED = re.compile(r"models:/+(?P<id>m-[0-9A-Za-z]{1,64})", re.ASCII)
_KINDS: dict[str, FileKind] = {
    MLMODEL: "weight.config",
    "input_example.json": "dataset",
    "serving_input_example.json": "dataset",
}
_SUFFIXES: dict[str, FileKind] = {
    ".yaml": "weight.config",
    ".yml": "weight.config",
    ".json": "weight.config",
    ".txt": "weight.config",
    ".md": "doc",
    ".py": "code",
}


@dataclass(frozen=True)
class Source:
    """Where a version comes from.

    Attributes:
        digest: The artifact, where it is one already.
        files: What is to be sealed, where it is not.
        model_id: The logged model, where it was one.
        run_id: The run that logged it.
    """

    digest: str = ""
    files: tuple[tuple[str, File], ...] = ()
    model_id: str = ""
    run_id: str = ""


def find(backend: LocalBackend, uri: str, host: str) -> Source:
    """Return what a source names: a logged model, a folder of a run or of artifacts, or another version.

    Raises:
        ReferenceNotFoundError: It is not there.
        UsageError: It is nothing that this server keeps.
    """
    if logged := _LOGGED.fullmatch(uri):
        with backend.database.read() as connection:
            row = logged_models.find(connection, logged["id"])
        return _working_copy(backend, logged_models.folder(row), row.id, row.run_id)
    if uri.startswith("models:/"):
        version: Any = backend.do(which_of(uri))
        return Source(version.digest, run_id=version.run)
    if run := _RUN.fullmatch(uri):
        with backend.database.read() as connection:
            folder = runs.folder(runs.find(connection, run["run"]))
        return _working_copy(backend, check_path(f"{folder}/{run['path'].strip('/')}"), run_id=run["run"])
    path = from_uri(uri, host)
    place = pinned(path)
    if place is None:
        return _working_copy(backend, path)
    if place.inner:
        msg = f"{uri[:300]!r} is a part of a version"
        raise UsageError(msg, remedy=f"register all of it: models:/{place.model}/{place.number}")
    version = backend.do(r.GetVersion(model=place.model, version=place.number))
    return Source(version.digest)


def seal(backend: LocalBackend, source: Source) -> str:
    """Return the digest of the artifact that a source is or becomes; its content is there, durably.

    Raises:
        UsageError: Two of its paths are the same where case does not count.
    """
    if source.digest:
        return source.digest
    paths = [path for path, _ in source.files]
    if len({path.casefold() for path in paths}) != len(paths):
        msg = "two files have the same path where upper and lower case are not told apart, and no artifact may"
        raise UsageError(msg, remedy="log the model again with other file names")
    layers = [_layer(path, file.digest, file.size) for path, file in source.files]
    made: list[bytes] = []
    if MLMODEL in paths and DOCUMENT not in paths:
        document = Document(schema=SCHEMA, format=FORMAT, runtime=None).to_json()
        made.append(document)
        layers.append(_layer(DOCUMENT, str(Digest.of(document)), len(document)))
    config = ModelConfig.of({}, {"format": FORMAT} if MLMODEL in paths else {}, tuple(layers)).to_json()
    descriptor = Descriptor(media_type=MODEL_CONFIG_TYPE, digest=str(Digest.of(config)), size=len(config))
    manifest = Manifest.of_model(descriptor, tuple(layers), {}).to_json()
    _keep(backend, (*made, config, manifest))
    return str(Digest.of(manifest))


def _working_copy(backend: LocalBackend, folder: str, model_id: str = "", run_id: str = "") -> Source:
    found = _files.working_copy(backend, folder)
    return Source(files=tuple(found.items()), model_id=model_id, run_id=run_id)


def _layer(path: str, digest: str, size: int) -> Descriptor:
    name = path.rpartition("/")[2]
    suffix = name[name.rfind(".") :] if "." in name else ""
    kind = _KINDS.get(path) or _SUFFIXES.get(suffix, "weight")
    return Descriptor(media_type=layer_type(kind), digest=digest, size=size, annotations={FILEPATH: path})


def _keep(backend: LocalBackend, documents: tuple[bytes, ...]) -> None:
    """Keep small content, in as few transactions as it takes: each waits for the disk.

    What is there already is left alone: making the version sees to it that it stays, or refuses.
    """
    named = {str(Digest.of(data)): data for data in documents}
    with backend.database.read() as connection:
        missing = [text for text in sorted(named) if not stock.is_there(connection, Digest.parse(text))]
    if not missing:
        return
    with _in_turn(backend) as connection:
        for text in missing:
            stock.arriving(connection, Digest.parse(text), len(named[text]), time.time_ns() // 1000)
    for text in missing:
        backend.blobs.put(Digest.parse(text), len(named[text]), [named[text]])
    with _in_turn(backend) as connection:
        for text in missing:
            size = len(named[text])
            stock.arrived(connection, backend.blobs, Digest.parse(text), size, time.time_ns() // 1000)


@contextmanager
def _in_turn(backend: LocalBackend) -> Iterator[Connection]:
    """Yield a writing transaction that waits for those that lock several rows of content, as making a version does.

    Each in its own order, they would wait for each other in a circle.
    """
    with backend.database.write() as connection:
        Work.writing(connection, backend.actor, None, None)  # locks the log's head
        yield connection
