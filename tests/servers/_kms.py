"""A key service of Amazon's: moto, repaired."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from servers._process import HOST, free_port, running
from servers._s3 import CREDENTIALS


class Kms:
    """A running server.

    Attributes:
        environment: The variables with which ``boto3`` finds it; the fixture has set them.
    """

    def __init__(self, endpoint):
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL_KMS": endpoint}

    def client(self):
        """Return a client of it."""
        import boto3

        return boto3.client("kms", endpoint_url=self.environment["AWS_ENDPOINT_URL_KMS"])

    def key(self, specification="ECC_NIST_P256", use="SIGN_VERIFY"):
        """Make a key and return what the service says of it."""
        return self.client().create_key(KeyUsage=use, KeySpec=specification)["KeyMetadata"]


@pytest.fixture(scope="session")
def kms_server(tmp_path_factory):
    """Run a key service for as long as the tests do."""
    pytest.importorskip("moto.server")
    pytest.importorskip("boto3")
    port = free_port()
    script = Path(__file__).with_name("_kms_server.py")
    command = [sys.executable, "-W", "ignore", str(script), "-H", HOST, "-p", str(port)]
    with running(command, port, tmp_path_factory.mktemp("kms") / "log"):
        yield Kms(f"http://{HOST}:{port}")


@pytest.fixture
def kms(kms_server, monkeypatch):
    """Return the key service, with what leads to it in the environment."""
    import boto3

    for name, value in kms_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps what it once found
    return kms_server
