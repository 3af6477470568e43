"""Models that harm their process, in real processes."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import rogue_source as rogue
from rogue_models import rogue_settings
from served_models import ROWS, outputs

from vitrify.artifacts.artifact import open_artifact
from vitrify.core.digest import Digest
from vitrify.core.errors import (
    ModelError,
    ReferenceNotFoundError,
    SignatureError,
    UnavailableError,
    UntrustedCodeError,
    UsageError,
)
from vitrify.core.protocols import Stateful, Streams
from vitrify.serve.workers import open_session, runs_apart
from vitrify.serve.workers.session import WorkerSession

FINE = {"x": np.array([[3.0, 1.0]])}


def magic(number, more=0.0):
    return {"x": np.array([[float(number), more]])}


def answers(session):
    """Say whether it still does what it should, and return the process that did."""
    output = session.run(FINE)["output"]
    assert output[0, 0] == 6.0
    return int(output[0, 1])


def test_a_model_answers_from_another_process_and_forgets_nothing_of_its_signature(opened):
    session = opened()
    assert answers(session) == session.pid != os.getpid()
    assert not isinstance(session, (Stateful, Streams))
    assert session.run({"x": np.zeros((0, 2))})["output"].shape == (0, 2)
    with pytest.raises(SignatureError):
        session.run({"x": np.zeros((1, 3))})
    # What it raises is said, and it goes on.
    with pytest.raises(ModelError, match="raised ValueError: I do not like this row") as caught:
        session.run(magic(rogue.RAISES))
    assert "Traceback" not in str(caught.value)
    with pytest.raises(ModelError, match="SystemExit: enough"):
        session.run(magic(rogue.REACHES))
    assert answers(session) == session.pid


def test_what_it_prints_goes_to_the_log(opened, caplog, until):
    with caplog.at_level(logging.INFO, "vitrify.serve.workers"):
        opened().run(magic(rogue.PRINTS))
        until(lambda: "hello from the model" in caplog.text and "its other side" in caplog.text)


def test_a_crash_fails_the_batch_that_it_was_and_no_other(opened):
    session = opened()
    before = session.pid
    with pytest.raises(UnavailableError, match=r"worker ended by signal 11 \(SIGSEGV\); it is started again"):
        session.run(magic(rogue.CRASHES))
    assert answers(session) != before
    with pytest.raises(UnavailableError, match="worker ended with exit code 3"):
        session.run(magic(rogue.EXITS))
    assert session.trouble == ""
    assert answers(session) == session.pid


def test_a_hang_is_ended_and_what_waits_behind_it_is_answered(opened, until):
    session = opened()
    session._kept._now._run_seconds = 0.3  # of this worker only: the next one is given time
    found = []

    def hang():
        with pytest.raises(UnavailableError, match=r"was ended because it took more than the 0\.3 s it may") as caught:
            session.run(magic(rogue.HANGS))
        found.append(caught.value)

    before = session.pid
    thread = threading.Thread(target=hang)
    thread.start()
    until(session._turn.locked)
    assert answers(session) != before
    thread.join()
    assert found


def test_one_that_crashes_again_and_again_is_unavailable_for_a_while_and_then_tried_again(opened, held):
    session = opened()
    held.hold(session)
    held.let()
    for _ in range(2):
        with pytest.raises(UnavailableError, match="signal 11"):
            session.run(magic(rogue.CRASHES))
    assert "failed 2 times in a row: it ended by signal 11" in session.trouble
    with pytest.raises(UnavailableError, match="failed 2 times in a row"):
        session.run(FINE)
    held.fail = UsageError("no such interpreter")
    held.let()
    held.until(lambda: "could not be started: no such interpreter" in session.trouble)
    held.fail = None
    held.let()
    held.until(lambda: not session.trouble)
    answers(session)


def test_one_that_grows_is_replaced_between_two_batches_without_an_error(opened, until):
    held = opened()._kept._now.memory
    session = opened(process_memory=2 * held)
    before = answers(session)
    session.run(magic(rogue.LEAKS, 2 * held))
    until(lambda: answers(session) != before)


def test_more_memory_than_allowed_from_the_start_is_said_with_figures(opened):
    with pytest.raises(UsageError, match=r"process_memory is 1000000 bytes; .* holds \d{7,}"):
        opened(process_memory=1_000_000)


def test_it_can_be_closed_in_any_state_and_takes_nothing_more(opened, until):
    session = opened()
    pid = session.pid
    session.close()
    session.close()
    with pytest.raises(UnavailableError, match="being unloaded"):
        session.run(FINE)
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_without_the_names_of_its_code_nothing_runs(shelf):
    with pytest.raises(UntrustedCodeError) as caught:
        open_session(open_artifact("rogue", store=shelf), rogue_settings().replace(allow=()))
    assert caught.value.names == ("rogue.predict",)


@pytest.mark.parametrize(
    ("python", "said"),
    [("/no/such/python", "cannot be started"), ("/bin/true", "cannot run Vitrify: it ended with exit code 0")],
)
def test_an_interpreter_that_is_none_is_said(opened, python, said):
    with pytest.raises(UsageError, match=said):
        opened(python=python)


def test_another_interpreter_may_run_it(opened):
    assert answers(opened(python=sys.executable))


def test_an_onnx_model_runs_apart_where_that_is_asked_for_and_here_else(shelf, opened):
    artifact = open_artifact("m", store=shelf)
    assert not runs_apart(artifact, rogue_settings("m"))
    assert not runs_apart(open_artifact("rogue", store=shelf), rogue_settings(process=False))
    assert runs_apart(open_artifact("rogue", store=shelf), rogue_settings())
    assert not isinstance(opened("m"), WorkerSession)
    session = opened("m", process=True)
    assert isinstance(session, WorkerSession)
    got = session.run({"X": ROWS})
    assert all(np.array_equal(got[name], array) for name, array in outputs(2).items())


def test_an_artifact_that_is_gone_is_not_opened(shelf):
    gone = dataclasses.replace(open_artifact("rogue", store=shelf), digest=Digest.parse("sha256:" + "0" * 64))
    with pytest.raises(ReferenceNotFoundError):
        open_session(gone, rogue_settings("gone"))


def test_parts_of_an_answer_are_made_when_they_are_wanted(opened, caplog, until):
    session = opened("counter", "count")
    assert isinstance(session, Streams)
    parts = list(session.stream(magic(5)))
    assert [part["output"][0, 0] for part in parts] == [0, 5, 10, 15, 20]
    assert session.run(magic(5))["output"][0, 0] == 20
    with caplog.at_level(logging.INFO, "vitrify.serve.workers"):
        stream = session.stream(magic(1_000_000_000))
        next(stream)
        caplog.clear()
        stream.close()  # the model hears of it
        until(lambda: "the stream has ended" in caplog.text)
    with pytest.raises(ModelError, match="no third part"):
        list(session.stream(magic(5, rogue.RAISES)))
    with pytest.raises(ModelError, match="no part"):
        session.run(magic(0))
    assert len(list(session.stream(magic(2)))) == 2


@pytest.mark.slow
def test_a_worker_ends_with_its_server_even_while_its_model_hangs(shelf, until):
    script = f"""
import numpy as np, pathlib, threading, time
from rogue_models import rogue_settings
from vitrify.artifacts.artifact import open_artifact
from vitrify.serve.workers import open_session
from vitrify.stores.oci_layout import OciLayout

artifact = open_artifact("rogue", store=OciLayout(pathlib.Path({str(shelf.root)!r})))
session = open_session(artifact, rogue_settings())
threading.Thread(target=session.run, args=({{"x": np.array([[{rogue.HANGS}.0, 0]])}},), daemon=True).start()
print(session.pid, flush=True)
time.sleep(3600)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(rogue.__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment) as server:
        pid = int(server.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        server.kill()
    until(lambda: not Path(f"/proc/{pid}").exists() or b"\nState:\tZ" in Path(f"/proc/{pid}/status").read_bytes())
