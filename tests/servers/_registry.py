"""Our own server, as a process with a real socket, which a test can kill and start again at the same address."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager

import pytest

from servers._process import HOST, PATIENCE, free_port, running

_SERVE = "import sys; from vitrify.cli.registry import command; {before}; command(sys.argv[1:], standalone_mode=True)"


class RegistryServer:
    """A server that runs, or ran.

    Attributes:
        url: ``http://127.0.0.1:<port>``.
        place: Its database.
        process: None while it is stopped.
    """

    def __init__(self, folder, place, blobs, options, before):
        self.folder = folder
        self.place = str(place or folder / "registry")
        self.blobs = blobs
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.process = None
        self._options = options
        self._code = _SERVE.format(before=before)
        self._running = None

    def start(self):
        """Start it, again at the same port."""
        command = [sys.executable, "-c", self._code, "serve", "--registry", self.place, "--port", str(self.port)]
        command += [*(["--blobs", str(self.blobs)] if self.blobs else []), *self._options]
        self._running = running(command, self.port, self.log)
        self.process = self._running.__enter__()

    def stop(self, how=signal.SIGTERM):
        """Stop it: gently, or with ``signal.SIGKILL``; return its exit code."""
        process, self.process = self.process, None
        process.send_signal(how)
        code = process.wait(PATIENCE)
        self._running.__exit__(None, None, None)
        return code

    @property
    def log(self):
        """What it wrote."""
        return self.folder / "server.log"

    def local(self):
        """Return the backend of its database, without the server; close it."""
        from vitrify.registry.places import local_backend

        return local_backend(self.place, self.blobs and str(self.blobs))

    def token(self, *roles, who="", models=("*",), days=1.0):
        """Make a token on the database; return its secret."""
        from vitrify.registry.requests import CreateToken

        backend = self.local()
        try:
            return backend.do(CreateToken(who=who or roles[0], roles=roles, models=models, days=days)).secret
        finally:
            backend.close()

    def client(self, *roles, **about):
        """Return a client with a new token; close it."""
        from vitrify.registry.registry import Registry
        from vitrify.registry.remote import RemoteBackend

        return Registry(RemoteBackend(self.url, self.token(*roles, **about)))


@contextmanager
def running_server(folder, place=None, blobs=None, options=(), before="pass"):
    """Run a registry's server until the block ends.

    Args:
        folder: An empty directory of its own, for its log and, where ``place`` is not given, its database.
        place: URL of a database, or a directory.
        blobs: Where the content is.
        options: More for ``vitrify registry serve``.
        before: Python that runs in the server's process first: shorter times, say.
    """
    server = RegistryServer(folder, place, blobs, options, before)
    server.token("admin")
    server.start()
    try:
        yield server
    finally:
        if server.process is not None:
            server.stop()


@pytest.fixture(scope="module")
def registry_server(tmp_path_factory):
    """Run a server with a new SQLite registry for the tests of one file."""
    with running_server(tmp_path_factory.mktemp("registry")) as server:
        yield server
