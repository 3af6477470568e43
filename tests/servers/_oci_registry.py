"""Debian's docker-registry: an OCI registry without the referrers API, open or behind a password."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from servers._process import HOST, free_port, needs, running

USER, PASSWORD = "reader", "a password: with colon"
_BCRYPT = "$2b$05$abcdefghijklmnopqrstuun4inzDyJ/ju.XxqdYPfFpACpwzO6WhS"  # of PASSWORD, with few rounds


class OciRegistry:
    """A running server.

    Attributes:
        host: ``127.0.0.1:<port>``, as it stands in a reference.
        folder: Where it keeps its files.
    """

    def __init__(self, host, folder):
        self.host = host
        self.folder = folder
        self.user, self.password = USER, PASSWORD


@contextmanager
def _registry(folder, **settings):
    needs("docker-registry")
    port = free_port()
    config = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}, "delete": {"enabled": True}},
        "http": {"addr": f"{HOST}:{port}"},
        **settings,
    }
    (folder / "config.yml").write_text(json.dumps(config))  # every JSON document is a YAML document
    with running(["docker-registry", "serve", str(folder / "config.yml")], port, folder / "log"):
        yield OciRegistry(f"{HOST}:{port}", folder / "data")


@pytest.fixture(scope="session")
def oci_registry(tmp_path_factory):
    """Run a registry that lets everybody in."""
    with _registry(tmp_path_factory.mktemp("oci-registry")) as server:
        yield server


@pytest.fixture(scope="session")
def oci_registry_with_password(tmp_path_factory):
    """Run a registry that asks for a user and a password (Basic)."""
    folder = tmp_path_factory.mktemp("oci-registry-with-password")
    (folder / "htpasswd").write_text(f"{USER}:{_BCRYPT}\n")
    with _registry(folder, auth={"htpasswd": {"realm": "vitrify", "path": str(folder / "htpasswd")}}) as server:
        yield server
