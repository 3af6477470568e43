from __future__ import annotations

import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import DeniedError, MalformedError, ModelError, SignatureError, UntrustedCodeError
from vitrify.serve.workers._shelf import Slot
from vitrify.serve.workers._wire import Answer, Ask, Fault, Task, Wire, error_of, fault


@pytest.fixture
def ends():
    """A wire's end that reads answers, and the plain socket on the other side."""
    ours, theirs = socket.socketpair()
    wire = Wire(ours, Answer)
    yield wire, theirs
    wire.close()
    theirs.close()


SLOTS = st.builds(
    Slot,
    name=st.text(max_size=9),
    part=st.text(max_size=5),
    dtype=st.text(max_size=4),
    shape=st.lists(st.integers(0, 2**63 - 1), max_size=4).map(tuple),
    offset=st.integers(0, 2**40),
)
TASKS = st.builds(
    Task,
    store=st.text(),
    digest=st.text(),
    known_as=st.none() | st.text(),
    reference=st.text(),
    runtime=st.none() | st.text(),
    allow=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    threads=st.integers(0, 9),
)
KINDS = st.sampled_from(["open", "run", "reset", "stream", "next", "stop"])


@given(ask=st.builds(Ask, kind=KINDS, slots=st.lists(SLOTS, max_size=5), task=st.none() | TASKS))
def test_every_message_comes_as_it_was_sent(ask):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Wire(ours, Answer).send(ask)
        assert Wire(theirs, Ask).receive(30.0) == ask


def test_a_message_larger_than_one_read_is_put_together(ends):
    wire, theirs = ends
    answer = Answer(
        "done", [Slot(f"output {number}", "data", "<f8", (3, number), 64 * number) for number in range(9999)]
    )
    sending = threading.Thread(target=Wire(theirs, Ask).send, args=(answer,))
    sending.start()
    assert wire.receive(30.0) == answer
    sending.join()


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x01\xc1",
        b"\x00\x00\x00\x01\x80\x80",
        b"\x00\x00\x00\x07\x81\xa4kind\x01",
        b"\x00\x00\x00\x0a\x81\xa4kind\xa3run",
    ],
    ids=["huge", "no-message-pack", "two-messages", "wrong-type", "a-question"],
)
def test_what_is_no_answer_is_refused(ends, sent):
    wire, theirs = ends
    theirs.sendall(sent)
    with pytest.raises(MalformedError):
        wire.receive(30.0)


def test_an_end_in_the_middle_is_an_end(ends):
    wire, theirs = ends
    theirs.sendall(b"\x00\x00\x00\x09\x81")
    theirs.close()
    with pytest.raises(EOFError):
        wire.receive(30.0)


def test_whoever_waits_waits_no_longer_than_asked_and_not_for_the_dead(ends, monkeypatch):
    monkeypatch.setattr("vitrify.serve.workers._wire._SLICE", 0.01)
    wire, _ = ends
    with pytest.raises(TimeoutError):
        wire.receive(0.01)
    with pytest.raises(EOFError):
        wire.receive(60.0, alive=lambda: False)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (SignatureError("no such input", remedy="look"), SignatureError, "no such input\n  -> look"),
        (DeniedError("not here"), DeniedError, "not here"),
        (ValueError("odd"), ModelError, "the model raised ValueError: odd"),
        (SystemExit("enough"), ModelError, "the model raised SystemExit: enough"),
        (ValueError("x" * 9000), ModelError, f"the model raised ValueError: {'x' * 9000}"[:2000]),
    ],
)
def test_errors_travel_by_class_and_text(error, kind, message):
    found = error_of(fault(error))
    assert type(found) is kind
    assert str(found) == message


def test_an_error_of_trust_keeps_the_names_and_an_unknown_one_is_the_model_s():
    found = error_of(fault(UntrustedCodeError("no", names=["a.b"])))
    assert isinstance(found, UntrustedCodeError)
    assert found.names == ("a.b",)
    assert type(error_of(Fault("SystemExit", "boo"))) is ModelError
    assert type(error_of(None)) is ModelError
