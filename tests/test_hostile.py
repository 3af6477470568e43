"""Every hostile file is refused without a byte of it run; every harmless one is clean, and loads to what it was."""

from __future__ import annotations

import contextlib
import json
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from corpus import benign, harmless, hostile
from measured import MIB, memory

from vitrify.artifacts.pack import pack
from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Allow
from vitrify.inspection.identify import describe, files_at, identify_one
from vitrify.inspection.scan import scan

CASES = hostile()
RUNS = [case for case in CASES if case.runs]
MEMORY = 64 * MIB
pytestmark = pytest.mark.timeout(120)  # nothing hangs; how fast it is depends on what else the process has done


@pytest.fixture
def made(tmp_path):
    """Make a case; afterwards, see that nothing but its own folder has anything new in it."""

    def make(case):
        (tmp_path / "case").mkdir()
        return case.make(tmp_path / "case", tmp_path / "marker")

    yield make
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("marker")], "the payload ran"


@pytest.fixture(autouse=True)
def own_directory(tmp_path, monkeypatch):
    """A payload that writes beside itself writes here."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    yield
    assert not list((tmp_path / "cwd").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_hostile_file_is_not_clean_and_its_scan_is_bounded(case, made):
    path = made(case)
    scan(Path(__file__))  # what is imported once is not the file's
    with memory() as measured:
        report = scan(path)
    assert measured.used <= MEMORY + path.stat().st_size
    assert report.verdict == ("not checked" if case.limit and report.verdict != "found" else "found"), report
    assert all(finding.place and finding.message and finding.rule for finding in report.findings)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_inspect_says_something_or_refuses_and_runs_nothing(case, made):
    path = made(case)
    with contextlib.suppress(VitrifyError):
        assert json.dumps(describe(path))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_pack_takes_no_hostile_file_and_says_what_it_could_not_check(case, made):
    path = made(case)
    try:
        artifact = pack(path, "hostile")
    except VitrifyError:
        return
    assert case.limit
    assert [note for note in artifact.document.notes if note.startswith("not checked: ")]


@pytest.mark.slow
def test_the_corpus_is_real_and_other_loaders_run_it(tmp_path):
    """Each payload runs where its case says that it does, in a process of its own."""
    for case in RUNS:
        (tmp_path / case.id.replace("/", "_")).mkdir()
    loaders = """
        import json, os, sys, warnings
        import numpy, joblib, torch, pickle
        warnings.simplefilter("ignore")
        def stacked(path):
            with open(path, "rb") as stream:
                while True:
                    pickle.load(stream)
        def arrays(path):
            found = numpy.load(path, allow_pickle=True)
            return [found[name] for name in found] if hasattr(found, "keys") else found
        loaders = {
            "pickle": lambda path: pickle.load(open(path, "rb")),
            "stacked": stacked,
            "joblib": joblib.load,
            "numpy": arrays,
            "torch": lambda path: torch.load(path, weights_only=False),
        }
        for runs, path, folder in json.load(sys.stdin):
            if (child := os.fork()) == 0:
                os.chdir(folder)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                try:
                    loaders[runs](path)
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
    """
    asked = []
    for case in RUNS:
        place = tmp_path / case.id.replace("/", "_")
        (place / "case").mkdir()
        asked.append((case.runs, str(case.make(place / "case", place / "marker")), str(place)))
    command = [sys.executable, "-c", textwrap.dedent(loaders)]
    subprocess.run(command, input=json.dumps(asked), text=True, check=True, stdout=subprocess.DEVNULL)
    silent = [place for _, _, place in asked if not list(Path(place).glob("marker*"))]
    assert not silent


@pytest.mark.parametrize(("name", "make"), benign().items(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_harmless_file_is_clean(name, make, tmp_path):
    report = scan(make(tmp_path))
    assert report.verdict == "clean", report


def same(left, right) -> bool:
    """Equal, by what a value would be pickled to: arrays, estimators and generators have no other equality."""
    if isinstance(left, np.ndarray):
        return type(left) is type(right) and left.dtype == right.dtype and pickle.dumps(left) == pickle.dumps(right)
    if hasattr(left, "predict") or hasattr(left, "transform"):
        call = next(method for method in ("predict", "transform") if hasattr(left, method))
        rows = ["system os"] if hasattr(left, "ngram_range") else harmless.X
        answers = [getattr(model, call)(rows) for model in (left, right)]
        answers = [answer.toarray() if hasattr(answer, "toarray") else np.asarray(answer) for answer in answers]
        return type(left) is type(right) and np.array_equal(*answers, equal_nan=answers[0].dtype.kind == "f")
    # Both go through one more round: a set whose members collide turns their order round each time that it is made.
    left_again, right_again = (pickle.dumps(pickle.loads(pickle.dumps(value, 5)), 5) for value in (left, right))
    return type(left) is type(right) and left_again == right_again


@pytest.mark.parametrize("name", harmless.NAMES)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_harmless_pickle_loads_to_what_was_pickled(name, protocol, tmp_path):
    path = harmless._pickled(name, protocol)(tmp_path)
    one = identify_one(files_at(path), where="it")
    loaded = one.row.load().read(one.files, one.entry, Allow())
    assert same(pickle.loads(path.read_bytes()), loaded)
