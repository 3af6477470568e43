"""MLflow's endpoints without a network: what the server's router would call, and what it would answer."""

from __future__ import annotations

import io
import json

from vitrify.core.errors import VitrifyError
from vitrify.registry.api.errors import status_of
from vitrify.registry.api.mlflow import routes
from vitrify.registry.api.routing import Call, Match, Router

ROUTER = Router(routes())
API = "/api/2.0/mlflow"
FILES = "/api/2.0/mlflow-artifacts/artifacts"


class Refused(Exception):  # noqa: N818 (it says what happened)
    """An answer that is an error."""

    def __init__(self, status, said):
        super().__init__(said)
        self.status, self.code, self.message = status, said["error_code"], said["message"]


class Wire:
    """One client of a registry's MLflow API, as an actor."""

    def __init__(self, backend):
        self.backend = backend

    def get(self, path, /, **query):
        listed = {name: value if isinstance(value, list) else [str(value)] for name, value in query.items()}
        return self.call("GET", f"{API}/{path}", query=listed)

    def post(self, path, /, **fields):
        return self.call("POST", f"{API}/{path}", fields)

    def patch(self, path, /, **fields):
        return self.call("PATCH", f"{API}/{path}", fields)

    def delete(self, path, /, **fields):
        return self.call("DELETE", f"{API}/{path}", fields)

    def upload(self, path, data):
        return self.call("PUT", f"{FILES}/{path}", stream=[data])

    def download(self, path):
        return self.answer("GET", f"{FILES}/{path}")

    def call(self, method, path, fields=None, query=None, stream=()):
        return json.loads(self.answer(method, path, json.dumps(fields).encode() if fields else b"", query, stream))

    def answer(self, method, path, body=b"", query=None, stream=()):
        """Return the bytes of an answer.

        Raises:
            Refused: It is an error.
        """
        match = ROUTER.match(method, path.split("/")[1:])
        assert isinstance(match, Match), (method, path, match)
        call = Call(self.backend, match.path, query or {}, {"host": "registry:8642"}, body, iter(stream))
        try:
            self.backend.actor.require(match.route.role)
            answer = match.route.endpoint(call)
        except VitrifyError as error:
            answer = match.route.failed(error, status_of(error))
            raise Refused(answer.status, json.loads(answer.body)) from error
        data = io.BytesIO()
        for piece in [answer.body] if isinstance(answer.body, bytes) else answer.body:
            data.write(piece)
        assert answer.length in {None, data.tell()}
        return data.getvalue()

    def logged(self, files=None, **about):
        """Log a model of some files; return its id."""
        model = self.post("logged-models", name="model", **about)["model"]["info"]
        root = model["artifact_uri"].removeprefix("mlflow-artifacts:/")
        for path, data in (files or {"MLmodel": b"flavors: {}\n", "model.bin": b"weights"}).items():
            self.upload(f"{root}/{path}", data)
        self.patch(f"logged-models/{model['model_id']}", status="LOGGED_MODEL_READY")
        return model["model_id"], root

    def version(self, name="churn", files=None, **about):
        """Log a model and register it; return the version."""
        id_, _ = self.logged(files)
        try:
            self.post("registered-models/create", name=name)
        except Refused as refused:
            assert refused.code == "RESOURCE_ALREADY_EXISTS"  # noqa: PT017 (every other is the test's)
        return self.post("model-versions/create", name=name, source=f"models:/{id_}", **about)["model_version"]

    def files(self, path):
        """Return what lies in a folder."""
        return self.call("GET", FILES, query={"path": [path]})["files"]
