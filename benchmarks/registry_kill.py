"""Sixteen processes promote versions of one model while they are killed at random; what is left is looked at.

    python benchmarks/registry_kill.py                       # 10,000 promotions, SQLite
    python benchmarks/registry_kill.py --database postgresql://user@host/empty --promotions 10000

At every moment, as another process sees it, exactly one version is in production; at the end the log verifies and
nothing dangles. Prints its result as JSON and leaves with 1 where that is not so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy import text

from vitrify.core.digest import Digest
from vitrify.core.errors import UnavailableError, VitrifyError
from vitrify.core.manifest import MANIFEST_TYPE
from vitrify.registry import requests as r
from vitrify.registry.actor import everyone
from vitrify.registry.audit import verify
from vitrify.registry.blobs import open_blobs
from vitrify.registry.database import Database
from vitrify.registry.local import LocalBackend
from vitrify.registry.registry import Registry

VERSIONS = 8
LEAST_KILLED, LEAST_LOOKS = 2, 100
"""Without these nothing is shown; a fast machine has promoted a few hundred before."""
IN_PRODUCTION = text(
    "SELECT (SELECT count(*) FROM versions WHERE stage = 'production'), "
    "(SELECT count(*) FROM productions WHERE until IS NULL), (SELECT seq FROM head)"
)
PROMOTIONS = text("SELECT count(*) FROM productions")


def open_backend(database: str, content: str) -> LocalBackend:
    while True:
        with suppress(UnavailableError):  # the server is just being restarted
            return LocalBackend(Database(database), open_blobs(content), everyone(f"process {os.getpid()}"))
        time.sleep(0.1)


def prepare(database: str, content: str) -> None:
    """Register some versions, and put the first into production."""
    backend = open_backend(database, content)
    config = b"{}"
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": "application/json", "digest": str(Digest.of(config)), "size": len(config)},
        "layers": [],
    }
    blobs = (config, json.dumps(manifest).encode())
    for data in blobs:
        digest = Digest.of(data)
        backend.expect(digest, len(data))
        backend.blobs.put(digest, len(data), [data])
        backend.arrived(digest, len(data))
    for _ in range(VERSIONS):
        backend.do(r.CreateVersion(model="churn", digest=str(Digest.of(blobs[-1]))))
    backend.do(r.Promote(model="churn", version="1", stage="production"))
    backend.close()


def promote_for_ever(database: str, content: str, worked: int) -> None:
    """Promote, roll back and set aliases until somebody kills this process; each that is done is a byte in a pipe."""
    random.seed()
    backend = open_backend(database, content)
    while True:
        version = str(random.randint(1, VERSIONS))
        expected = str(random.randint(1, VERSIONS)) if random.random() < 0.1 else None
        dice = random.random()
        try:
            if dice < 0.1:
                backend.do(r.Rollback(model="churn"))
            elif dice < 0.2:
                backend.do(r.SetAlias(model="churn", alias="champion", version=version))
            else:
                backend.do(r.Promote(model="churn", version=version, stage="production", expected=expected))
            with suppress(BlockingIOError):  # it is full: nobody doubts that something was done
                os.write(worked, b"+")
        except UnavailableError:
            time.sleep(0.05)  # the server was restarted
        except VitrifyError:
            continue  # somebody else was first


def fork(function, *arguments) -> int:
    """Run a function in a child process, which has no other way out."""
    if (child := os.fork()) != 0:
        return child
    try:
        function(*arguments)
        os._exit(0)
    except BaseException as error:  # noqa: BLE001 (a child never returns into its parent's code)
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        os._exit(1)


def kill_at_random(database: str, content: str, processes: int, every: float, told: int) -> None:
    """Keep so many processes at work, and kill one of them now and then.

    Between two kills something is done at least once: where a process takes longer to begin than it is let live, as on
    a machine with much else to do, nothing ever would be.
    """
    os.setpgid(0, 0)
    seen, worked = os.pipe()
    os.set_blocking(worked, False)
    working = [fork(promote_for_ever, database, content, worked) for _ in range(processes)]
    while True:
        time.sleep(random.uniform(0, 2 * every))
        os.read(seen, 65536)
        victim = random.randrange(processes)
        os.kill(working[victim], signal.SIGKILL)
        _, status = os.waitpid(working[victim], 0)
        if not os.WIFSIGNALED(status):
            os._exit(1)  # it had ended by itself
        working[victim] = fork(promote_for_ever, database, content, worked)
        os.write(told, b".")


def count_new(heard: int) -> int:
    """Return how many bytes have come through a pipe since the last call."""
    with suppress(BlockingIOError):
        return len(os.read(heard, 65536))
    return 0


def watch(database: str, content: str, promotions: int, patience: float, heard: int) -> dict[str, object]:
    """Look all the time, until enough was promoted, somebody was killed twice, and there was enough to see."""
    backend = open_backend(database, content)
    looks, wrong, done, end, last, killed = 0, [], 0, time.monotonic() + patience, 0, 0
    os.set_blocking(heard, False)
    while (done < promotions or killed < LEAST_KILLED or looks < LEAST_LOOKS) and time.monotonic() < end:
        with suppress(UnavailableError), backend.database.read() as connection:
            versions, productions, seq = connection.execute(IN_PRODUCTION).one()
            looks += 1
            if (versions, productions) != (1, 1) or seq < last:
                wrong.append((versions, productions, seq))
            last = seq
            if looks % 20 == 0:
                done = connection.execute(PROMOTIONS).scalar() or 0
                killed += count_new(heard)
    backend.close()
    os.set_blocking(heard, True)
    return {"promotions": done, "looks": looks, "wrong": wrong[:10], "killed": killed}


def judge(database: str, content: str) -> dict[str, object]:
    """Look at what is left."""
    backend = open_backend(database, content)
    for attempt in range(100):
        with suppress(UnavailableError):
            report = verify(backend.database)
            break
        time.sleep(0.1 * attempt)
    registry = Registry(backend)
    for _ in range(20):
        with suppress(UnavailableError):
            version = registry.version("churn", "@production").version
            registry.promote("churn", "2" if version == "1" else "1", "production")  # and everything still works
            break
        time.sleep(0.1)
    found = {"log": report.verdict, "findings": [str(finding) for finding in report.findings[:5]], **report.details}
    backend.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", help="an empty one; default: a temporary SQLite file")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--promotions", type=int, default=10_000)
    parser.add_argument("--every", type=float, default=0.05, help="seconds between two kills, on average")
    parser.add_argument("--patience", type=float, default=3600, help="seconds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database, content = asked.database or str(Path(folder) / "registry.db"), str(Path(folder) / "content")
        # Every step is a child: nothing that was opened before a fork is used after it.
        if os.waitpid(fork(prepare, database, content), 0)[1]:
            return 1
        start = time.monotonic()
        heard, told = os.pipe()
        killer = fork(kill_at_random, database, content, asked.processes, asked.every, told)
        os.close(told)
        try:
            result = watch(database, content, asked.promotions, asked.patience, heard)
            alive = os.waitpid(killer, os.WNOHANG) == (0, 0)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(killer, signal.SIGKILL)
        result |= {"seconds": round(time.monotonic() - start, 1), "database": asked.database or "sqlite"}
        with os.fdopen(heard, "rb") as stream:
            result["killed"] += len(stream.read())  # every child is dead: nobody has the other end any more
        result |= {"processes": asked.processes, **judge(database, content)}
        good = (
            alive
            and result["killed"] >= LEAST_KILLED
            and not result["wrong"]
            and result["log"] == "clean"
            and result["promotions"] >= asked.promotions
        )
        print(json.dumps({"good": bool(good), **result}, default=str))
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
