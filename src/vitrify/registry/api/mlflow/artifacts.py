"""MLflow's artifact proxy: files by path, which the server keeps by digest.

``mlflow-artifacts:/<path>`` is ``/api/2.0/mlflow-artifacts/artifacts/<path>``. Uploads in parts and presigned URLs are
not offered, and ``server-info`` says so: clients then send and fetch a file in one stream.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from vitrify.core.digest import Digest
from vitrify.core.errors import CorruptError
from vitrify.registry.api.mlflow import _files, logged_models, runs
from vitrify.registry.api.mlflow._paths import SCHEME, check_path
from vitrify.registry.api.mlflow._wire import Message, Row, failed
from vitrify.registry.api.routing import Answer, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.registry.api.routing import Call

ROOT = "/api/2.0/mlflow-artifacts/artifacts"
_NOTHING = b"{}"
_JSON = {"content-type": "application/json"}


class List(Message, frozen=True, kw_only=True):
    """``ListArtifacts`` of the proxy."""

    path: str = ""


class ListOfRun(Message, frozen=True, kw_only=True):
    """``ListArtifacts`` of a run."""

    run_id: str = ""
    run_uuid: str = ""
    path: str = ""


class ListOfModel(Message, frozen=True, kw_only=True):
    """``ListLoggedModelArtifacts``."""

    model_id: str
    artifact_directory_path: str = ""


def upload(call: Call) -> Answer:
    """Keep a file."""
    _files.keep(call.backend, call.path["path"], call.stream)
    return Answer(200, _NOTHING, dict(_JSON))


def download(call: Call) -> Answer:
    """Send a file; no browser shows it or runs it."""
    path = check_path(call.path["path"])
    file = _files.one(call.backend, path)
    headers = {
        "content-type": "application/octet-stream",
        "content-disposition": f"attachment; filename*=UTF-8''{quote(path.rpartition('/')[2])}",
        "x-content-type-options": "nosniff",
    }
    if file.data is not None:
        return Answer(200, file.data, headers)
    headers["etag"] = f'"{file.digest}"'
    digest = Digest.parse(file.digest)
    return Answer(200, _checked(digest, call.backend.read(digest)), headers, length=file.size)


def remove(call: Call) -> Answer:
    """Take a file or a folder away."""
    _files.remove(call.backend, call.path["path"])
    return Answer(200, _NOTHING, dict(_JSON))


def list_(call: Call, asked: List) -> dict[str, Any]:
    """Return what lies in a folder, by names relative to it."""
    folder = asked.path.strip("/")
    if folder:
        check_path(folder)
    return {"files": _files.listed(call.backend, folder)}


def list_of_run(call: Call, asked: ListOfRun) -> dict[str, Any]:
    """Return what lies in a folder of a run, by paths relative to the run's."""
    with call.backend.database.read() as connection:
        root = runs.folder(runs.find(connection, asked.run_id or asked.run_uuid))
    return {"root_uri": f"{SCHEME}:/{root}", "files": _inside(call, root, asked.path)}


def list_of_model(call: Call, asked: ListOfModel) -> dict[str, Any]:
    """Return what lies in a folder of a logged model, by paths relative to the model's."""
    with call.backend.database.read() as connection:
        root = logged_models.folder(logged_models.find(connection, asked.model_id))
    return {"root_uri": f"{SCHEME}:/{root}", "files": _inside(call, root, asked.artifact_directory_path)}


def _checked(digest: Digest, pieces: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Yield content, the last piece only when all of it is what the digest promises: MLflow's clients check nothing.

    Raises:
        CorruptError: It is not; whoever reads gets less than was said, which is an error to him.
    """
    hasher, last = hashlib.sha256(), b""
    for piece in pieces:
        if last:
            yield last
        hasher.update(piece)
        last = bytes(piece)
    if hasher.hexdigest() != digest.hex:
        msg = f"the registry's content {digest} is damaged"
        raise CorruptError(msg, remedy="restore it from a backup")
    yield last


def _inside(call: Call, root: str, path: str) -> list[dict[str, Any]]:
    inner = path.strip("/")
    folder = check_path(f"{root}/{inner}") if inner else root
    found = _files.listed(call.backend, folder)
    return [{**file, "path": f"{inner}/{file['path']}" if inner else file["path"]} for file in found]


ROWS = (
    Row("GET", ROOT, "reader", list_, List),
    Row("GET", "/artifacts/list", "reader", list_of_run, ListOfRun),
    Row("GET", "/logged-models/{model_id}/artifacts/directories", "reader", list_of_model, ListOfModel),
)
STREAMS = (
    Route("PUT", f"{ROOT}/{{path*}}", "writer", upload, name="mlflow.artifacts.upload", streams=True, failed=failed),
    Route("GET", f"{ROOT}/{{path*}}", "reader", download, name="mlflow.artifacts.download", failed=failed),
    Route("DELETE", f"{ROOT}/{{path*}}", "admin", remove, name="mlflow.artifacts.delete", failed=failed),
)
