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
PATIENCE = 120
"""Seconds that a test waits for what must come: a machine that has much else to do takes long to start a process."""


def free_port():
    """Return a port that nobody listens on now, and that nobody gets who leaves the choice to the system.

    A connection is made through it and closed on this side first. So for a minute it waits for stray packets, in which
    time a server may listen on it that says which port it wants, as all do; but the system gives it to nobody.
    """
    with socket.create_server((HOST, 0)) as listener:
        port = listener.getsockname()[1]
        near = socket.create_connection((HOST, port))
        far, _ = listener.accept()
        far.close()
        near.recv(1)
        near.close()
    return port


def until(condition, what):
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"in {PATIENCE} s it never came to be so: {what}"
        time.sleep(0.01)


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
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.fail(f"the server ended with {process.returncode}: {log.read_text(errors='replace')[-2000:]}")
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.02)
    pytest.fail(f"the server did not answer within {PATIENCE} s: {log.read_text(errors='replace')[-2000:]}")
