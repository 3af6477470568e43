"""Every trick with opcodes, resolvers and gadgets: found, refused, and not a byte of it run."""

from __future__ import annotations

import subprocess
import sys

import pytest
from corpus import hostile
from corpus.harmless import NAMES, values
from corpus.opcodes import plain
from measured import calls

from vitrify.core.errors import LimitExceededError, MalformedError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import audit, load

CASES = [case for case in hostile() if int("".join(filter(str.isdigit, case.number))) <= 60]
PROVED = ("1", "2", "4", "5", "6", "8", "9", "23", "35", "40", "57")
"""Those that are run for real, by Python's own unpickler in a process of its own."""


@pytest.fixture
def made(tmp_path):
    """Make a case, and see afterwards that its payload has not run."""

    def make(case):
        (tmp_path / "case").mkdir()
        return case.make(tmp_path / "case", tmp_path / "marker").read_bytes()

    yield make
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_hostile_pickle_is_found_and_refused_and_does_not_run(case, made):
    content = memoryview(made(case))
    before = set(sys.modules)
    found = audit(content, where="model.pkl")
    assert not {"antigravity", "timeit", "runpy", "imaplib", "cProfile"} & (set(sys.modules) - before)
    assert found.findings
    assert all(one.place.startswith("model.pkl:opcode ") and one.rule and one.message for one in found.findings)
    wanted = (LimitExceededError,) if case.limit else (UntrustedCodeError, MalformedError)
    with pytest.raises(wanted):
        load(content, where="model.pkl", allow=Allow())
    assert calls(lambda: audit(content, where="model.pkl")) < 10 * len(content) + 20_000


@pytest.mark.parametrize("case", [case for case in CASES if case.number in PROVED], ids=lambda case: case.id)
def test_the_same_file_does_run_where_pickle_itself_reads_it(case, tmp_path):
    (tmp_path / "case").mkdir()
    path = case.make(tmp_path / "case", tmp_path / "marker")
    code = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True, cwd=tmp_path, timeout=60)
    assert (tmp_path / "marker").exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_a_name_that_was_met_before_the_break_is_still_named(protocol):
    content = plain("nowhere", protocol)
    for cut in (content[:-1], content[:-1] + b"\xff", content[:-1] + b"h\xfe."):
        rules = {one.rule: one.subject for one in audit(memoryview(cut), where="x").findings}
        assert rules == {"untrusted-global": "os.system", "malformed-pickle": ""}


def test_what_it_would_do_is_said_in_words():
    (finding,) = audit(memoryview(plain("nowhere")), where="x").findings
    assert "shell command" in finding.message
    assert finding.subject == "os.system"


@pytest.mark.parametrize("name", NAMES)
def test_what_honest_people_keep_is_clean_and_comes_back(name):
    import pickle

    for protocol in (0, 2, 4, 5):
        content = pickle.dumps(values()[name], protocol)
        assert audit(memoryview(content), where="x").findings == ()
        copy = load(memoryview(content), where="x", allow=Allow())
        assert pickle.dumps(copy, protocol) == pickle.dumps(pickle.loads(content), protocol)
