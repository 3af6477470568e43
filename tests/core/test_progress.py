"""Progress: silent without a renderer, balanced with one, and never shared between threads by accident."""

import threading

import pytest

from vitrify.core.progress import show, track


class Recorder:
    """A renderer that writes down what it is told."""

    def __init__(self):
        self.events = []

    def start(self, label, total):
        self.events.append(("start", label, total))
        return Line(self.events, label)

    def finish(self, bar):
        self.events.append(("finish", bar.label))


class Line:
    def __init__(self, events, label):
        self.events, self.label = events, label

    def advance(self, amount=1):
        self.events.append(("advance", self.label, amount))


def test_without_a_renderer_progress_says_nothing(capsys):
    with track("hashing", total=2) as bar:
        bar.advance()
        bar.advance(5)
    assert capsys.readouterr() == ("", "")


def test_a_renderer_sees_every_step_in_order():
    recorder = Recorder()
    with show(recorder), track("outer", total=2) as outer:
        outer.advance(2)
        with track("inner") as inner:
            inner.advance()
    assert recorder.events == [
        ("start", "outer", 2),
        ("advance", "outer", 2),
        ("start", "inner", None),
        ("advance", "inner", 1),
        ("finish", "inner"),
        ("finish", "outer"),
    ]


def test_the_bar_is_taken_away_when_the_work_fails():
    recorder = Recorder()
    with pytest.raises(RuntimeError, match="broken"), show(recorder), track("work"):
        raise RuntimeError("broken")
    assert recorder.events == [("start", "work", None), ("finish", "work")]
    with track("later"):
        pass
    assert len(recorder.events) == 2


def test_the_inner_renderer_wins_and_the_outer_one_comes_back():
    outer, inner = Recorder(), Recorder()
    with show(outer):
        with show(inner), track("a"):
            pass
        with track("b"):
            pass
    assert [event[1] for event in inner.events] == ["a", "a"]
    assert [event[1] for event in outer.events] == ["b", "b"]


def test_another_thread_has_no_renderer_of_ours():
    recorder = Recorder()

    def work():
        with track("elsewhere") as bar:
            bar.advance()

    with show(recorder):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert recorder.events == []
