"""The server against peers and against the bare runtime: one row a request, 16 connections, a closed loop, one client.

    python benchmarks/serve.py [--peers triton,mlserver] [--models xgboost,cnn] [--seconds 5] [--rounds 3]
                               [--plane native] [--options "--access-log access.jsonl"] [--tls] [--json FILE]

In each round every server is started anew, asked until its first answer, and loaded, one protocol after the other;
the figures are medians of the rounds. Ours is ``vitrify serve`` with everything that it does by default: proof by
golden samples, bounded queues, limits, deadlines, statistics. With --tls it is ours alone: both planes under TLS, and
the native one without.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from _measure import machine, scratch, show
from _serve import client, models, servers
from _serve.processes import Process, answer

TARGETS = {"triton": 2.0}  # ours is to be so many times it
CONNECTIONS, WARMUP = 16, 2.0
FLOORS = ("1", "2", "4", "8", "16", "32")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=",".join(servers.PEERS), help="or: none")
    parser.add_argument("--models", default=",".join(models.CODE))
    parser.add_argument("--seconds", type=float, default=5.0, help="a measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plane", default="native", choices=["native", "python", "both"])
    parser.add_argument("--options", default="", help='more for ours: "--processes 2 --access-log access.jsonl"')
    parser.add_argument("--tls", action="store_true", help="what TLS costs, and what the native plane saves of it")
    parser.add_argument("--json", type=Path, help="file for all figures")
    return parser.parse_args()


def contestants(given: argparse.Namespace) -> list[servers.Server]:
    if given.tls:
        more = shlex.split(given.options)
        kinds = (("native", True), ("python", True), ("native", False))
        return [
            servers.Server(f"vitrify ({plane}{', TLS' if tls else ''})", servers.ours(plane, *more, tls=tls))
            for plane, tls in kinds
        ]
    planes = ["native", "python"] if given.plane == "both" else [given.plane]
    more = shlex.split(given.options)
    own = [servers.Server(f"vitrify ({plane})", servers.ours(plane, *more)) for plane in planes]
    return own + [servers.PEERS[name] for name in given.peers.split(",") if name != "none"]


def batch_reached(ask: client.Ask, name: str) -> tuple[int, int]:
    """Return how many rows and how many batches our server, or Triton, says that it has run."""
    path = f"/v2/models/{name}/stats"
    status, body = answer(client.Ask(ask.port, path, b"", method="GET", tls=ask.tls))
    if status != 200:
        return 0, 0
    found = json.loads(body)["model_stats"][0]
    return found["inference_count"], found["execution_count"]


def measure(server: servers.Server, model: models.Model, folder: Path, seconds: float) -> dict[str, dict]:
    """Start a server, load it with every protocol that it speaks, and end it."""
    folder.mkdir(parents=True)
    plan = server.plan(model, folder)
    process = Process(plan.command, folder, server.environment(model, plan))
    found: dict[str, dict] = {}
    try:
        start = process.first_answer(plan.asks["REST"])
        tells = "gRPC" in plan.asks and "binary" in plan.asks
        for protocol, ask in plan.asks.items():
            before = batch_reached(plan.asks["REST"], model.name) if tells else (0, 0)
            used, began = process.cpu(), time.perf_counter()
            figures = client.load(ask, folder, connections=CONNECTIONS, seconds=seconds, warmup=WARMUP)
            cores = (process.cpu() - used) / (time.perf_counter() - began)
            after = batch_reached(plan.asks["REST"], model.name) if tells else (0, 0)
            rows, batches = after[0] - before[0], after[1] - before[1]
            batch = rows / batches if batches else 0.0
            found[protocol] = {**figures, "batch": batch, "cores": cores, "cold_s": start}
        held = process.memory()
    finally:
        process.stop()
    return {protocol: {**figures, "memory": held} for protocol, figures in found.items()}


def floors(model: models.Model, sizes: tuple[str, ...]) -> dict[str, float]:
    """Return the rows a second of ONNX Runtime in a loop, by rows a run."""
    environment = {**os.environ, "SERVED_MODEL": str(model.folder)}
    command = [sys.executable, servers.APPS / "floor.py", "0.5", *sizes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def middle(runs: list[dict]) -> dict:
    """Return the medians of the figures, and all failures."""
    found = {key: median(run[key] for run in runs) for key in runs[0] if key != "failures"}
    failures: dict[str, int] = {}
    for run in runs:
        for what, count in run["failures"].items():
            failures[what] = failures.get(what, 0) + count
    return {**found, "failures": failures}


def floor_at(floor: dict[str, float], batch: float) -> tuple[str, float]:
    """Return the measured floor whose batch is the nearest to what was reached."""
    size = min(floor, key=lambda one: abs(int(one) - batch))
    return size, floor[size]


def rows(protocol: str, found: dict[str, dict[str, dict]], floor: dict[str, float]) -> list[tuple[str, str, str]]:
    """Return a table's rows for one protocol: ours first."""
    table = []
    own = next(iter(found.values()))[protocol]
    for name, protocols in found.items():
        figures = protocols.get(protocol)
        if figures is None:
            continue
        said = f"p50 {figures['p50_ms']:7.2f} ms  p99 {figures['p99_ms']:7.2f} ms"
        said += f"  {figures['cores']:.1f} cores"
        failures = sum(figures["failures"].values())
        said += f"  {failures} failed" if failures else ""
        if figures["batch"]:
            size, rate = floor_at(floor, figures["batch"])
            said += f"  batch {figures['batch']:4.1f}"
            said += f"  {figures['requests_per_second'] / rate:.2f} x the bare runtime at {size}"
        if figures is not own:
            ratio = own["requests_per_second"] / figures["requests_per_second"]
            slowest = own["p99_ms"] / figures["p99_ms"] if figures["p99_ms"] else 0.0
            target = f" (target: {TARGETS[name]:.0f} x, p99 at most 1 x)" if name in TARGETS else ""
            said += f"  ours {ratio:.1f} x, p99 {slowest:.2f} x{target}"
        table.append((name, f"{figures['requests_per_second']:,.0f}/s", said))
    return table


def starts(found: dict[str, dict[str, dict]]) -> list[tuple[str, str, str]]:
    table = []
    for at, (name, protocols) in enumerate(found.items()):
        figures = next(iter(protocols.values()))
        target = "  (target: under 1 s, under 150 MB)" if not at else ""
        table.append((name, f"{figures['cold_s']:.2f} s", f"{figures['memory'] / 1e6:,.0f} MB after the load{target}"))
    return table


def compare(name: str, given: argparse.Namespace, folder: Path) -> dict:
    """Measure one model with all; print and return the figures."""
    model, servers_ = models.make(name, folder), contestants(given)
    runs: dict[str, list[dict[str, dict]]] = {server.name: [] for server in servers_}
    floor: list[dict[str, float]] = []
    for number in range(given.rounds):
        floor.append(floors(model, FLOORS))
        for server in servers_:
            here = folder / f"{name}-{server.name}-{number}"
            runs[server.name].append(measure(server, model, here, given.seconds))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    lowest = {size: median(one[size] for one in floor) for size in FLOORS}
    found = {
        server: {protocol: middle([run[protocol] for run in several]) for protocol in several[0]}
        for server, several in runs.items()
    }
    what = f"{models.WHAT[name]}, {CONNECTIONS} connections, medians of {given.rounds} rounds"
    for protocol, said in (("REST", "REST, JSON"), ("binary", "REST, binary tensors"), ("gRPC", "gRPC")):
        show(f"{said}: {what}", rows(protocol, found, lowest))
    loop = [(f"batch {size}", f"{rate:,.0f}/s", "rows") for size, rate in lowest.items()]
    show("ONNX Runtime in a loop, one thread", loop)
    show("From the process's start to the first answer, and memory of all its processes", starts(found))
    sys.stdout.flush()
    return {"floor": lowest, "servers": found}


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no server is left behind
    given = options()
    client.ready()
    for server in contestants(given):
        server.ready()
    with scratch() as name:
        found = {one: compare(one, given, Path(name)) for one in given.models.split(",")}
    figures = {"machine": machine(), "connections": CONNECTIONS, "seconds": given.seconds, "models": found}
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    else:
        print("\n" + json.dumps(figures))


if __name__ == "__main__":
    main()
