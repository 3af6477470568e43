"""Ten times too much for minutes: what is answered, what is refused, how long it takes, and what memory does.

    python benchmarks/serve_overload.py [--minutes 10] [--plane native] [--model cnn]

First a closed loop with 16 connections says what the server can do. Then a short queue, and 20 times the connections
over REST and gRPC at once, each asking again as soon as it is answered: far more than it can do. Nothing may come back
but answers, 429 and 503 (``RESOURCE_EXHAUSTED`` and ``UNAVAILABLE``), and memory must stay where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from _measure import machine, scratch, show
from _serve import client, models, servers
from _serve.processes import Process

CONNECTIONS, MANY = 16, 320
GROWTH = 16e6  # bytes: less is noise of the allocator
REFUSED = {"REST": {"429", "503"}, "gRPC": {"8", "14"}}
CONFIG = """
[server]
port = {http}
grpc_port = {grpc}
plane = "{plane}"
connections = 2048
[[models]]
reference = "{model}"
[models.batching]
rows = 32
queue = 32
"""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--model", default="cnn", choices=list(models.CODE))
    parser.add_argument("--plane", default="native", choices=["native", "python"])
    return parser.parse_args()


def plan(model: models.Model, folder: Path, plane: str) -> servers.Plan:
    """Return how ours is started with a short queue."""
    found = servers.ours(plane)(model, folder)
    http, grpc = found.asks["REST"].port, found.asks["gRPC"].port
    file = folder / "serve.toml"
    file.write_text(CONFIG.format(http=http, grpc=grpc, plane=plane, model=model.name))
    return dataclasses.replace(found, command=[found.command[0], "serve", "--config", str(file)])


def overload(process: Process, asks: dict[str, client.Ask], folder: Path, seconds: float) -> tuple[dict, list[int]]:
    """Ask over both protocols at once; return the figures of each, and the memory over time."""
    started = {}
    for protocol in ("REST", "gRPC"):
        command = asks[protocol].command(folder, MANY // 2, seconds, 1.0)
        started[protocol] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    held = []
    try:
        time.sleep(min(5.0, seconds / 4))  # what is taken once is taken now
        while any(one.poll() is None for one in started.values()):
            held.append(process.memory())
            time.sleep(min(5.0, seconds / 10))
        return {protocol: json.loads(one.communicate()[0]) for protocol, one in started.items()}, held
    finally:
        for one in started.values():
            one.kill()
            one.wait()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    given = options()
    client.ready()
    with scratch() as name:
        folder = Path(name)
        model = models.make(given.model, folder)
        here = folder / "run"
        here.mkdir()
        planned = plan(model, here, given.plane)
        process = Process(planned.command, here, planned.environment)
        try:
            process.first_answer(planned.asks["REST"])
            alone = client.load(planned.asks["REST"], here, connections=CONNECTIONS, seconds=5)
            found, held = overload(process, planned.asks, here, given.minutes * 60)
            after = client.load(planned.asks["REST"], here, connections=CONNECTIONS, seconds=5)
        finally:
            status = process.stop()
    print(machine())
    rows, wrong = [], {}
    for protocol, figures in found.items():
        failures = figures["failures"]
        wrong |= {f"{protocol} {what}": count for what, count in failures.items() if what not in REFUSED[protocol]}
        refused = sum(failures.values()) / figures["seconds"]
        said = f"p99 {figures['p99_ms']:.1f} ms, {refused:,.0f}/s refused: {failures}"
        rows.append((f"answered over {protocol}", f"{figures['requests_per_second']:,.0f}/s", said))
    quarter = len(held) // 4 + 1
    early, late = median(held[:quarter]), median(held[-quarter:])
    rows += [
        ("before, 16 connections", f"{alone['requests_per_second']:,.0f}/s", f"p99 {alone['p99_ms']:.1f} ms"),
        ("after, 16 connections", f"{after['requests_per_second']:,.0f}/s", f"p99 {after['p99_ms']:.1f} ms"),
        ("memory, first quarter", f"{early / 1e6:.0f} MB", ""),
        ("memory, last quarter", f"{late / 1e6:.0f} MB", f"(target: at most {GROWTH / 1e6:.0f} MB more)"),
        ("anything else", str(sum(wrong.values())), f"{wrong or 'nothing'} (target: nothing)"),
        ("how it ended", str(status), "(target: 0)"),
    ]
    show(f"{MANY} connections for {given.minutes:g} minutes, {models.WHAT[model.name]}, {given.plane} plane", rows)
    return int(bool(wrong) or late - early > GROWTH or status != 0)


if __name__ == "__main__":
    sys.exit(main())
