"""The load client: one of our own (``native/examples/load``), in a process of its own, the same for every server."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

NATIVE = Path(__file__).parent.parent.parent / "native"
CLIENT = NATIVE / "target" / "release" / "examples" / "load"


@dataclass(frozen=True)
class Ask:
    """One request, sent again and again: over HTTP to ``path``, or over gRPC to the method ``path``."""

    port: int
    path: str
    body: bytes
    grpc: bool = False
    headers: tuple[str, ...] = ()
    method: str = "POST"
    tls: bool = False

    def command(self, folder: Path, connections: int, seconds: float, warmup: float) -> list[str]:
        """Return the command that sends it; the body is kept as a file in ``folder``."""
        body = folder / ("body.grpc" if self.grpc else "body.http")
        body.write_bytes(self.body)
        command = [str(CLIENT), f"127.0.0.1:{self.port}", "--grpc" if self.grpc else "--path", self.path]
        command += ["--body", str(body), "--connections", str(connections), "--seconds", str(seconds)]
        command += ["--warmup", str(warmup), "--json"]
        command += ["--tls"] if self.tls else []
        for header in self.headers:
            command += ["--header", header]
        return command


def ready() -> None:
    """Build the client."""
    command = ["cargo", "build", "--release", "--quiet", "--example", "load"]
    subprocess.run(command, cwd=NATIVE, check=True)


def load(ask: Ask, folder: Path, *, connections: int, seconds: float, warmup: float = 1.0) -> dict:
    """Ask again and again on so many connections; return requests_per_second, p50_ms, p99_ms, failures ...

    Raises:
        SystemExit: The server cannot be reached.
    """
    command = ask.command(folder, connections, seconds, warmup)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + warmup + 120)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)
