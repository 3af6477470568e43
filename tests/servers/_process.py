"""A server's process: started, waited for, and stopped, also when the tests are killed."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest

HOST = "127.0.0.1"
_PATIENCE = 60


def free_port():
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def needs(*programs):
    """Skip the test unless all of these are on the path."""
    if missing := [program for program in programs if shutil.which(program) is None]:
        pytest.skip(f"not on the path: {', '.join(missing)}")


@contextmanager
def running(command, port, log, *, env=None, stop=signal.SIGTERM):
    """Run a server until the block ends; it also ends when this process does, however that happens."""
    if shutil.which("setpriv") and command[0] != "setpriv":
        command = ["setpriv", "--pdeathsig", "KILL", *command]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, env=env)
    try:
        _wait(process, port, log)
        yield process
    finally:
        process.send_signal(stop)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process, port, log):
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}")
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.02)
    pytest.fail(f"the server did not answer within {_PATIENCE} s: {log.read_text(errors='replace')[-2000:]}")
