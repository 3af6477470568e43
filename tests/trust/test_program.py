"""A program that is run to its end: all that it says is heard, and no more than was agreed."""

from __future__ import annotations

import sys

import pytest

from vitrify.core.errors import MalformedError, UnavailableError
from vitrify.trust import _program


def run(code, data=b"", limit=1000):
    return _program.run([sys.executable, "-c", code], data, limit=limit, what="the program")


def test_what_it_reads_and_writes_may_be_larger_than_a_pipe():
    data = bytes(range(256)) * 4000
    code = "import sys; sys.stderr.write('-' * 10**6); sys.stdout.buffer.write(sys.stdin.buffer.read())"
    ended = run(code, data, limit=len(data))
    assert (ended.status, ended.output) == (0, data)
    assert set(ended.complaint) == {"-"}


def test_who_does_not_read_is_not_waited_for():
    assert run("print('done')", b"x" * 10**6).output == b"done\n"


def test_who_never_stops_writing_is_stopped():
    with pytest.raises(MalformedError, match="more than 1000 bytes"):
        run("while True: print('y' * 1000)")


def test_the_end_of_a_complaint_is_told():
    ended = run("import sys; sys.stderr.write('a' * 10**5 + 'é' * 400 + ' at last'); sys.exit(7)")
    assert ended.status == 7
    assert ended.complaint.endswith("é at last")
    assert len(ended.complaint) == 500


def test_who_dies_is_told():
    assert run("import os; os.kill(os.getpid(), 9)").status == -9


@pytest.mark.parametrize(
    "code",
    [
        "time.sleep(600)",
        "os.close(0); os.close(1); os.close(2); time.sleep(600)",
        "\nwhile True: os.write(2, b'I complain for ever. ')",
    ],
)
def test_who_takes_too_long_is_stopped(code, monkeypatch):
    monkeypatch.setattr(_program, "SECONDS", 1)
    with pytest.raises(UnavailableError, match="the program took more than 1 s"):
        run(f"import os, time\n{code}")
