"""PostgreSQL, with a new database for whoever asks for one."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from servers._process import HOST, PATIENCE, free_port, needs, running

_USER = "postgres"
_SETTINGS = {
    "listen_addresses": HOST,
    "max_connections": "200",
    # What is tested is our program's death, not the machine's: PostgreSQL itself does not die here.
    "fsync": "off",
    "full_page_writes": "off",
}


class Postgresql:
    """A running server.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        process: The server, for tests that stop and start it.
    """

    def __init__(self, port, process):
        self.port = port
        self.process = process

    def url(self, database="postgres", driver="postgresql+psycopg"):
        """Return the SQLAlchemy URL of a database; pass ``driver="postgresql"`` for psycopg's own."""
        return f"{driver}://{_USER}@{HOST}:{self.port}/{database}"

    def wait(self):
        """Wait until it lets somebody in: it listens before it does."""
        import psycopg

        end = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url(driver="postgresql")).close()
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return

    def restart(self):
        """Let the server die at once, as ``pg_ctl restart -m immediate`` does, and start it again."""
        self.stop()
        self.process = subprocess.Popen(self.process.args, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    def stop(self):
        """Let the server die at once."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(PATIENCE)

    def database(self):
        """Make a new, empty database and return its SQLAlchemy URL."""
        import psycopg

        name = f"test_{secrets.token_hex(8)}"
        with psycopg.connect(self.url(driver="postgresql"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)


@pytest.fixture(scope="session")
def postgresql():
    """Run PostgreSQL for as long as the tests do."""
    with serving() as server:
        yield server


@pytest.fixture
def mortal_postgresql():
    """Run a PostgreSQL that the test may stop and start."""
    with serving() as server:
        yield server


@contextmanager
def serving(settings=_SETTINGS):
    """Run a server until the block ends."""
    pytest.importorskip("psycopg")
    binaries = _binaries()
    prefix = _other_user()
    folder = Path(tempfile.mkdtemp(prefix="vitrify-postgresql-"))  # pytest's own is closed to other users
    try:
        if prefix:
            account = pwd.getpwnam(_USER)
            os.chown(folder, account.pw_uid, account.pw_gid)
        make = [*prefix, str(binaries / "initdb"), "-D", str(folder / "data"), "-U", _USER]
        make += ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        done = subprocess.run(make, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode:
            pytest.skip(f"initdb does not work here: {done.stderr.strip()[-500:]}")
        port = free_port()
        settings = {**settings, "port": str(port), "unix_socket_directories": str(folder)}
        command = [*prefix, str(binaries / "postgres"), "-D", str(folder / "data")]
        command += [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        with running(command, port, folder / "log", stop=signal.SIGQUIT) as process:
            server = Postgresql(port, process)
            server.wait()
            try:
                yield server
            finally:
                if server.process is not process:
                    server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries():
    """Return the folder of the server's programs, which Debian puts on no path."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    pytest.skip("PostgreSQL's server is not installed: no initdb")


def _other_user():
    """Return how to become another user: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return []
    needs("setpriv")
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        pytest.skip(f"running as root, and there is no user {_USER}")
    return ["setpriv", "--reuid", _USER, "--regid", _USER, "--init-groups", "--pdeathsig", "KILL"]
