"""The access log: every line whole, in the file that is there now, and nobody waits for it."""

import json
import os
import threading
import time

import pytest

from vitrify.core.errors import UsageError
from vitrify.serve.observe import access
from vitrify.serve.observe.access import AccessLog

LIMIT = 60.0


def until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(access, "_PAUSE", 0.0)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_lines_are_json_with_a_time_and_cannot_be_forged(tmp_path):
    path = tmp_path / "a.log"
    log = AccessLog(str(path))
    log.write(time=0.25, id='a"\n{"id":"forged"}', status=200)
    log.close()
    assert lines(path) == [{"time": "1970-01-01T00:00:00.250+00:00", "id": 'a"\n{"id":"forged"}', "status": 200}]


def test_the_end_writes_what_waits(tmp_path):
    path = tmp_path / "a.log"
    log = AccessLog(str(path))
    for number in range(1000):
        log.write(time=0.0, number=number)
    log.close()
    assert [line["number"] for line in lines(path)] == list(range(1000))
    assert log.dropped == 0


@pytest.mark.parametrize("how", ["told to", "sees it"])
def test_a_file_that_was_moved_is_opened_anew(tmp_path, how):
    path, moved, reopened = tmp_path / "a.log", tmp_path / "a.log.1", threading.Event()
    log = AccessLog(str(path), reopened.set, look=LIMIT if how == "told to" else 0.01)
    log.write(time=0.0, number=1)
    until(lambda: len(lines(path)) == 1)
    path.rename(moved)
    if how == "told to":
        log.reopen()
    assert reopened.wait(LIMIT)
    log.write(time=0.0, number=2)
    log.close()
    assert [line["number"] for line in lines(moved)] == [1]
    assert [line["number"] for line in lines(path)] == [2]


def test_a_file_that_cannot_be_opened_anew_is_written_on(tmp_path):
    folder = tmp_path / "logs"
    folder.mkdir()
    path, elsewhere = folder / "a.log", tmp_path / "elsewhere"
    log = AccessLog(str(path), look=0.01)
    folder.rename(elsewhere)
    log.write(time=0.0, number=1)
    log.close()
    assert [line["number"] for line in lines(elsewhere / "a.log")] == [1]


def test_a_line_that_was_torn_spoils_no_other(tmp_path, monkeypatch):
    path = tmp_path / "a.log"
    log = AccessLog(str(path))
    real = os.write

    def full(file, data):
        real(file, data[:10])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(access.os, "write", full)
        log.write(time=0.0, number=1)
        until(lambda: log.dropped == 1)
    log.write(time=0.0, number=2)
    log.close()
    first, second = path.read_text().splitlines()
    assert len(first) == 10
    assert json.loads(second)["number"] == 2


def test_what_nobody_reads_is_dropped_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "_MOST_WAITING", 10)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = AccessLog(str(pipe))
    for _ in range(20):  # more than a pipe takes at a time, and more than may wait
        for _ in range(10):
            log.write(time=0.0, text="x" * 20_000)
        until(lambda: len(log._waiting) in {0, 10})
    assert log.dropped > 0
    os.close(reader)  # whoever waits for the reader sees that there is none
    log.close()
    assert not log._thread.is_alive()


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        AccessLog(str(tmp_path / "none" / "a.log"))


def test_standard_error_is_a_place(capfd):
    log = AccessLog(access.STDERR)
    log.write(time=0.0, number=1)
    log.close()
    assert json.loads(capfd.readouterr().err)["number"] == 1
