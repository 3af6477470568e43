"""Unmodified MLflow clients, each a process of its own, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlflow")
pytestmark = pytest.mark.external

HERE = Path(__file__).parent


def run(script, *arguments, folder, **environment):
    """Run a client's script, and return what it said."""
    environment = {**os.environ, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "VITRIFY_HOME": str(folder), **environment}
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI"):
        environment.pop(name, None)
    command = [sys.executable, str(HERE / script), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "the session ended well" in done.stdout
    return done


def test_a_scripted_session_of_an_unmodified_client_ends_well(server, tmp_path):
    token = server.token("writer", "approver", "admin", who="me")
    run("session.py", server.url, tmp_path, folder=tmp_path, MLFLOW_TRACKING_TOKEN=token)

    client = server.client("reader", who="auditor")
    try:
        kinds = [event.kind for event in client.events(model="churn")]
        assert kinds.count("version.created") == 3
        assert "version.deleted" in kinds
        first = client.version("churn", "1")
        assert (first.author, first.parameters) == ("me", {"c": "1.0", "solver": "lbfgs"})
        assert client.version("churn", "2").metrics == {"auc": 0.97}  # it was logged after the first was registered
        assert client.production_at("churn").version == "2"
    finally:
        client.close()


def test_three_people_with_different_roles_may_do_different_things(server, tmp_path):
    from sklearn.linear_model import LinearRegression

    import vitrify

    rows = np.arange(12.0).reshape(4, 3)
    artifact = vitrify.save(LinearRegression().fit(rows, rows @ [1.0, 2.0, 3.0]), "ours", example=rows)
    with artifact.session() as session:
        np.save(tmp_path / "expected.npy", next(iter(session.predict(rows).values())))
    np.save(tmp_path / "rows.npy", rows)
    admin = server.client("admin")
    try:
        admin.register("ours", artifact, version="1.2.0", tags={"team": "risk"})
    finally:
        admin.close()
    tokens = [
        server.token("reader", who="the-reader", models=("ours", "graph", "trees")),
        server.token("writer", who="the-writer", models=("graph", "trees")),
        server.token("writer", "approver", who="the-approver"),
        server.token("admin", who="the-admin"),
    ]
    run("users.py", server.url, tmp_path, *tokens, folder=tmp_path)
