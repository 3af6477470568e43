"""An S3 server: moto, which honours If-None-Match."""

from __future__ import annotations

import json
import secrets
import sys
import urllib.request

import pytest

from servers._process import HOST, PATIENCE, free_port, running

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class S3:
    """A running server.

    Attributes:
        endpoint: ``http://127.0.0.1:<port>``.
        credentials: The environment variables that its clients need; the fixture has set them.
    """

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.credentials = CREDENTIALS

    def bucket(self):
        """Make a new, empty bucket and return its name."""
        name = f"test-{secrets.token_hex(8)}"
        urllib.request.urlopen(
            urllib.request.Request(f"{self.endpoint}/{name}", method="PUT"), timeout=PATIENCE
        ).close()
        return name

    def url(self, prefix="models"):
        """Make a new bucket and return what ``open_blobs`` takes."""
        return f"s3://{self.bucket()}/{prefix}?endpoint={self.endpoint}"

    def version(self):
        """Return what the server says that it is."""
        with urllib.request.urlopen(f"{self.endpoint}/moto-api/data.json", timeout=PATIENCE) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """Run an S3 server for as long as the tests do, with its credentials in the environment."""
    pytest.importorskip("moto.server")
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", HOST, "-p", str(port)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        with running(command, port, tmp_path_factory.mktemp("s3") / "log"):
            yield S3(f"http://{HOST}:{port}")
