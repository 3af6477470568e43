"""The registry against MLflow's: the same work, on SQLite and on PostgreSQL, direct and through REST, in one run.

Each side makes versions, sets an alias, resolves it, and searches 100 rows of 2,000 versions. MLflow runs in an
environment of its own (``.venv-peers-registry``). Then ours again with 100,000 versions, and how the servers start.

Both sides are as they are installed, and both are durable when they answer. On SQLite, MLflow keeps SQLite's defaults,
a rollback journal with ``synchronous=FULL``: a commit waits for the disk four times. Ours is a write-ahead log with the
same ``synchronous=FULL``: a commit waits once. On PostgreSQL, both wait for the server, which has ``fsync=on`` and
``synchronous_commit=on``. No more is to be had than one commit after the other, so that is measured beside ours, a row
at a time and in the same seconds: where the disk is slow, it is what both sides are held up by, and no ratio of two
commits can be more than what MLflow's waits and work take above one of ours.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import venv
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from _measure import child, scratch, show

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".venv-peers-registry"
PACKAGES = ("mlflow==3.17.2", "psycopg[binary]==3.3.9")
VERSIONS, SEARCHES, READS, ROUNDS = 2000, 60, 600, 3
MANY = 100_000

OURS = """
from sqlalchemy import event
from vitrify.registry import open_registry, requests as r
from vitrify.core.digest import Digest
registry = open_registry(sys.argv[1], blobs=sys.argv[2])
versions, reads, searches, many = map(int, sys.argv[3:7])
config = b"{}"
layer = b"weights"
def put(data):
    path = Path(f"blob-{os.getpid()}"); path.write_bytes(data)
    registry.backend.upload(Digest.of(data), path)
    return str(Digest.of(data))
def part(data, kind):
    return {"mediaType": f"application/vnd.cncf.model.{kind}", "digest": put(data), "size": len(data)}
manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": part(config, "config.v1+json"), "layers": [part(layer, "weight.v1.raw")]}).encode()
digest = put(manifest)
def rate(count, work):
    start = time.perf_counter()
    for number in range(count):
        work(number)
    return count / (time.perf_counter() - start)
made = lambda number: registry.do(r.CreateVersion(model="bench", digest=digest, tags={"n": str(number)}))
def fill(count):
    database = registry.backend.database  # nothing of this is measured, so nothing waits for the disk
    hasty = lambda connection, _: connection.execute("PRAGMA synchronous=OFF")
    event.listen(database.engine, "connect", hasty)
    database.close()
    rate(count, made)
    event.remove(database.engine, "connect", hasty)
    database.close()
def bare():
    # What no durable program can beat: one row, one commit.
    if sys.argv[1].startswith("postgresql"):
        import psycopg
        one = psycopg.connect(sys.argv[1], autocommit=True)
        one.execute("CREATE TABLE bare (id BIGSERIAL PRIMARY KEY, text TEXT)")
        return lambda: one.execute("INSERT INTO bare (text) VALUES ('a row')")
    import sqlite3
    one = sqlite3.connect(sys.argv[1] + "-bare", isolation_level=None)
    one.execute("PRAGMA journal_mode=WAL"); one.execute("PRAGMA synchronous=FULL")
    one.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, text TEXT)")
    return lambda: one.execute("INSERT INTO bare (text) VALUES ('a row')")
def against(count, work):
    # Rates of the work and of a bare commit, one after the other, so that both meet the same disk.
    if sys.argv[1].startswith("http"):
        return rate(count, work), 0
    spent = waited = 0.0
    for number in range(count):
        start = time.perf_counter(); work(number)
        middle = time.perf_counter(); commit()
        spent += middle - start; waited += time.perf_counter() - middle
    return count / spent, count / waited
if many:
    fill(many)
commit = None if sys.argv[1].startswith("http") else bare()
create, limit = against(versions, made)
alias, _ = against(versions // 4, lambda number: registry.set_alias("bench", "champion", str(number % 100 + 1)))
resolve = rate(reads, lambda number: registry.version("bench", "@champion"))
search = rate(searches, lambda number: registry.do(r.Search(query="name = bench", limit=100)))
report(create=create, alias=alias, resolve=resolve, search=search, limit=limit)
"""

MLFLOW = """
import warnings; warnings.simplefilter("ignore")
import logging; logging.disable(logging.CRITICAL)
versions, reads, searches, _ = map(int, sys.argv[3:7])
from mlflow import MlflowClient
if sys.argv[1].startswith("http"):
    client = MlflowClient(tracking_uri=sys.argv[1], registry_uri=sys.argv[1])
    store = client._get_registry_client().store
else:
    from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore
    store = SqlAlchemyStore(sys.argv[1])
from mlflow.entities.model_registry import ModelVersionTag
store.create_registered_model("bench")
def rate(count, work):
    start = time.perf_counter()
    for number in range(count):
        work(number)
    return count / (time.perf_counter() - start)
source = "s3://models/bench"
made = lambda number: store.create_model_version("bench", source, tags=[ModelVersionTag("n", str(number))])
create = rate(versions // 10, made)
if not sys.argv[1].startswith("http"):
    rate(versions - versions // 10, made)
else:
    import threading
    def some():
        for number in range((versions - versions // 10) // 4): made(number)
    threads = [threading.Thread(target=some) for _ in range(4)]
    [thread.start() for thread in threads]; [thread.join() for thread in threads]
name = lambda number: store.set_registered_model_alias("bench", "champion", str(number % 100 + 1))
alias = rate(versions // 20, name)
resolve = rate(reads // 4, lambda number: store.get_model_version_by_alias("bench", "champion"))
search = rate(searches // 3, lambda number: store.search_model_versions("name = 'bench'", max_results=100))
report(create=create, alias=alias, resolve=resolve, search=search)
"""


def ready() -> None:
    """Make MLflow's environment if it is not there."""
    if not (PEERS / "bin" / "mlflow").exists():
        venv.create(PEERS, with_pip=True, clear=True)
        subprocess.run([PEERS / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)


def port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def memory(process: int) -> int:
    """Return the bytes that a process and its children hold, shared pages divided."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            if int(folder.name) == process or int(status[1]) == process:
                rollup = (folder / "smaps_rollup").read_text().splitlines()
                total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) * 1024
        except (OSError, StopIteration, IndexError):
            continue
    return total


@contextmanager
def served(command: list[str], where: int, folder: Path, **environment: str):
    """Run a server; yield the seconds to its first answer and the memory that it then held."""
    start = time.perf_counter()
    log = (folder / "server.log").open("w")
    own = {**os.environ, "VITRIFY_HOME": str(folder / "home"), "MLFLOW_DISABLE_TELEMETRY": "true", **environment}
    process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=own, start_new_session=True)
    try:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", where), 1) as one:
                    one.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                    if one.recv(12).startswith(b"HTTP/1.1"):
                        break
            except OSError:
                if process.poll() is not None or time.perf_counter() - start > 600:
                    raise SystemExit((folder / "server.log").read_text()[-2000:]) from None
                time.sleep(0.01)
        yield time.perf_counter() - start, memory(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def ours_served(database: str, content: Path, folder: Path):
    number = port()
    vitrify = str(Path(sys.executable).with_name("vitrify"))
    named = {"VITRIFY_REGISTRY": database, "VITRIFY_REGISTRY_BLOBS": str(content)}
    make = [vitrify, "registry", "token", "create", "--who", "bench", "--role", "admin", "--json"]
    done = subprocess.run(make, capture_output=True, text=True, check=True, env={**os.environ, **named})
    os.environ["VITRIFY_TOKEN"] = json.loads(done.stdout)["secret"]
    command = [vitrify, "registry", "serve", "--port", str(number)]
    return number, served(command, number, folder, **named)


def mlflow_served(database: str, folder: Path):
    number = port()
    command = [str(PEERS / "bin" / "mlflow"), "server", "--backend-store-uri", database, "--port", str(number)]
    command += ["--artifacts-destination", str(folder / "artifacts"), "--host", "127.0.0.1"]
    return number, served(command, number, folder, PATH=f"{PEERS / 'bin'}:{os.environ['PATH']}")


def row(name: str, key: str, ours: dict[str, float], theirs: dict[str, float], wanted: float) -> tuple[str, str, str]:
    ratio = ours[key] / theirs[key]
    return name, f"{ours[key]:,.0f}/s", f"MLflow {theirs[key]:,.0f}/s: {ratio:.1f} x (target {wanted:.0f} x)"


def compare(title: str, ours: dict[str, float], theirs: dict[str, float]) -> None:
    rows = [
        row("create a version", "create", ours, theirs, 8),
        row("set an alias", "alias", ours, theirs, 8),
        row("resolve an alias", "resolve", ours, theirs, 20),
        row("search, 100 rows of 2,000", "search", ours, theirs, 20),
    ]
    if ours.get("limit"):
        waits, their_waits = (ours["limit"] / side["create"] for side in (ours, theirs))
        against = f"a version takes {waits:.1f} as long, MLflow's {their_waits:.1f}"
        rows.append(("limit: a bare commit", f"{ours['limit']:,.0f}/s", against))
    show(title, rows)


def middle(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: median(run[key] for run in runs) for key in runs[0]}


def main(folder: Path, databases) -> None:
    sizes = [str(VERSIONS), str(READS), str(SEARCHES), "0"]
    for name, ours_url, theirs_url in databases:
        direct(folder, name, ours_url, theirs_url, sizes)
        served_by_both(folder, name, ours_url, theirs_url, sizes)
    grown(folder, sizes)


def said(what: str) -> None:
    """Say on stderr what is being measured, and since when: the whole takes minutes."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def direct(folder: Path, name: str, ours_url, theirs_url, sizes: list[str]) -> None:
    own, other = [], []
    for number in range(ROUNDS):
        here = folder / f"{name}-{number}"
        (here / "content").mkdir(parents=True)
        said(f"{name}, direct, round {number + 1} of {ROUNDS}: ours")
        own.append(child(OURS, ours_url(here), here / "content", *sizes, folder=here))
        said(f"{name}, direct, round {number + 1} of {ROUNDS}: MLflow's")
        other.append(child(MLFLOW, theirs_url(here), "", *sizes, folder=here, python=PEERS / "bin" / "python"))
    compare(f"{name}, direct", middle(own), middle(other))


def served_by_both(folder: Path, name: str, ours_url, theirs_url, sizes: list[str]) -> None:
    own, other, starts = [], [], []
    for number in range(ROUNDS):
        here = folder / f"{name}-rest-{number}"
        (here / "content").mkdir(parents=True)
        said(f"{name}, through REST, round {number + 1} of {ROUNDS}: ours")
        where, running = ours_served(ours_url(here), here / "content", here)
        with running as (seconds, size):
            own.append(child(OURS, f"http://127.0.0.1:{where}", "", *sizes, folder=here))
        said(f"{name}, through REST, round {number + 1} of {ROUNDS}: MLflow's")
        where, running = mlflow_served(theirs_url(here), here)
        with running as (their_seconds, their_size):
            url = f"http://127.0.0.1:{where}"
            other.append(child(MLFLOW, url, "", *sizes, folder=here, python=PEERS / "bin" / "python"))
        starts.append({"seconds": seconds, "size": size, "their seconds": their_seconds, "their size": their_size})
    compare(f"{name}, through REST", middle(own), middle(other))
    start = middle(starts)
    answer = f"{start['seconds']:.2f} s", f"MLflow {start['their seconds']:.2f} s (target 1.5 s)"
    held = f"{start['size'] / 1e6:.0f} MB", f"MLflow {start['their size'] / 1e6:,.0f} MB (target 150 MB)"
    show(f"{name}, a server that starts", [("to the first answer", *answer), ("memory then", *held)])


def grown(folder: Path, sizes: list[str]) -> None:
    """Print how ours is with 100,000 versions, against 2,000."""
    here = folder / "many"
    (here / "content").mkdir(parents=True)
    said(f"SQLite, direct, with {VERSIONS:,} versions")
    few = child(OURS, here / "few.db", here / "content", *sizes, folder=here)
    said(f"SQLite, direct, with {MANY:,} versions")
    many = child(OURS, here / "many.db", here / "content", *sizes[:3], str(MANY), folder=here)
    rows = [
        (key, f"{many[key]:,.0f}/s", f"{many[key] / few[key]:.2f} x of what it is with {VERSIONS:,}") for key in few
    ]
    show(f"SQLite, direct, with {MANY:,} versions", rows)


@contextmanager
def postgresql():
    """Run a PostgreSQL with its durable defaults; yield a function that makes a database and returns its URL."""
    sys.path.insert(0, str(ROOT / "tests"))
    from servers._postgresql import serving

    with serving({"listen_addresses": "127.0.0.1"}) as server:
        yield lambda: server.database().replace("postgresql+psycopg", "postgresql")


if __name__ == "__main__":
    ready()
    with scratch() as name, postgresql() as make:
        databases = (
            ("SQLite", lambda here: str(here / "ours.db"), lambda here: f"sqlite:///{here / 'mlflow.db'}"),
            ("PostgreSQL", lambda _: make(), lambda _: make()),
        )
        main(Path(name), databases)
