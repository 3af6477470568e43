"""A server as a process of its own: started, asked until it answers, weighed, and ended."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _serve.client import Ask

PATIENCE = 60.0  # seconds to the first answer, and for the end


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def family(process: int) -> list[int]:
    """Return a process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        parents.setdefault(parent, []).append(int(folder.name))
    found = [process]
    for one in found:
        found += parents.get(one, [])
    return found


def memory(process: int) -> int:
    """Return the bytes that a process and its descendants hold, shared pages divided (PSS)."""
    total = 0
    for one in family(process):
        try:
            rollup = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration):
            continue
    return total


def cpu(process: int) -> float:
    """Return the seconds of processor time that a process and its living descendants have taken."""
    ticks = 0
    for one in family(process):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def answer(ask: Ask, seconds: float = 10.0) -> tuple[int, bytes]:
    """Ask once over HTTP; return status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", ask.port, timeout=seconds)
    if ask.tls:  # whoever answers is ours
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", ask.port, timeout=seconds, context=trusting)
    try:
        headers = dict(header.split(": ", 1) for header in ask.headers)
        connection.request(ask.method, ask.path, ask.body or None, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Process:
    """A running server.

    Args:
        command: What starts it.
        folder: Its working directory; ``server.log`` there holds what it says.
        environment: Beside this process's own.
    """

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "server.log"
        self._began = time.perf_counter()
        with self.log.open("w") as log:
            own = {**os.environ, **environment}
            self.process = subprocess.Popen(
                command, cwd=folder, stdout=log, stderr=log, env=own, start_new_session=True
            )

    def first_answer(self, ask: Ask) -> float:
        """Ask every few milliseconds; return the seconds from its start to the first answer that is one.

        Raises:
            SystemExit: It ended, or there was none in time.
        """
        said: object = "nothing"
        while time.perf_counter() - self._began < PATIENCE and self.process.poll() is None:
            try:
                status, body = answer(ask)
                if status == 200:
                    return time.perf_counter() - self._began
                said = status, body[:300]
            except (OSError, http.client.HTTPException) as error:
                said = error
            time.sleep(0.005)
        message = f"no answer: {said}\n{self.log.read_text()[-3000:]}"
        raise SystemExit(message)

    def memory(self) -> int:
        return memory(self.process.pid)

    def cpu(self) -> float:
        return cpu(self.process.pid)

    def stop(self) -> int:
        """End it and all that it started; return its exit status."""
        members = family(self.process.pid)
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for one in members[1:]:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return self.process.returncode
