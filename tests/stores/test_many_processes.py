"""Many processes at once, and processes that die."""

import subprocess
import sys
from pathlib import Path

import pytest

from vitrify.stores import ArtifactFiles, OciLayout, collect, fsck, read_manifest
from vitrify.testing.stores import build, contents, save

HERE = Path(__file__).parent
KILL = HERE.parent.parent / "benchmarks" / "kill.py"


@pytest.mark.slow
def test_writers_readers_and_collectors_share_a_store(tmp_path):
    root = tmp_path / "store"

    def start(role, number):
        command = [sys.executable, str(HERE / "_worker.py"), role, str(root), str(number)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    writers = [start("write", number) for number in range(3)]
    others = [start("read", 0), start("read", 1), start("gather", 0)]
    failures = [process.communicate()[1] for process in writers]
    Path(f"{root}.stop").touch()
    failures += [process.communicate()[1] for process in others]
    assert [process.returncode for process in (*writers, *others)] == [0] * 6, "\n".join(failures)

    store = OciLayout(root)
    mine = {f"mine-{number}:{count}" for number in range(3) for count in range(12) if count % 3}
    assert set(store.names.all()) == mine | {"shared:1", "shared:2"}
    for target in store.names.all().values():
        contents(store, target.content)
    collect(store)
    assert fsck(store).passed
    assert sorted(path.name for path in (root / ".vitrify").iterdir() if path.name != "verified") == [
        "index.lock",
        "keep.lock",
    ]


@pytest.mark.slow
def test_kill_at_random_moments_loses_nothing_and_shows_nothing_partial():
    done = subprocess.run([sys.executable, str(KILL), "15", "7"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("15 kills")


def test_the_stage_of_a_living_process_is_not_collected(store):
    with store.stage() as stage:
        with stage.open("w", "weight") as stream:
            stream.write(b"1")
        collect(OciLayout(store.root))
        digest = stage.commit(build, "churn:latest")
    assert contents(store, digest) == {"w": b"1"}


def test_the_stage_of_a_dead_process_is_collected(store):
    code = """
import os, sys
from pathlib import Path
from vitrify.stores import OciLayout
with OciLayout(Path(sys.argv[1])).stage() as stage, stage.open("w", "weight") as stream:
    stream.write(b"x" * 3_000_000)
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, str(store.root)], check=False)
    private = store.root / ".vitrify"
    assert len(list(private.glob("stage-*"))) == 2, "a directory and its lock"
    collect(store)
    assert list(private.glob("stage-*")) == []


def test_a_reader_that_keeps_what_it_opens_is_waited_for(store):
    digest = save(store, {"w": b"1"}, "churn:latest")
    code = "import sys, pathlib, vitrify.stores as s; s.collect(s.OciLayout(pathlib.Path(sys.argv[1])))"
    with store.kept():
        store.names.unset("churn:latest")
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run([sys.executable, "-c", code, str(store.root)], timeout=1.5, check=False)
        assert contents(store, digest) == {"w": b"1"}
    assert len(collect(store).removed) == 3


def test_what_is_mapped_outlives_collection(store):
    digest = save(store, {"w": b"1234"}, "churn:latest")
    view = ArtifactFiles(store, read_manifest(store, digest)).map("w")
    store.names.unset("churn:latest")
    collect(store)
    assert bytes(view) == b"1234"
    assert view.readonly
