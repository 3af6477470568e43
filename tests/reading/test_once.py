import gc

import pytest

from vitrify.core.errors import MalformedError
from vitrify.reading.malformed import refuse
from vitrify.reading.once import once


def test_it_is_made_once_a_view_and_name_and_forgotten_with_the_view():
    made = []

    @once
    def count(view, where):
        made.append((bytes(view), where))
        return view

    view = memoryview(b"abc")
    assert count(view, "x") is count(view, "x")
    assert made == [(b"abc", "x")]
    count(view, "y")
    other = memoryview(b"abc")
    count(other, "y")
    assert len(made) == 3
    for _ in range(3):
        del view, other
        gc.collect()
        view, other = memoryview(b"d"), memoryview(b"e")
        assert (bytes(count(view, "x")), bytes(count(other, "x"))) == (b"d", b"e")


def test_what_it_raises_is_raised_again_by_asking_again():
    asked = []

    @once
    def refused(view, where):
        asked.append(where)
        refuse(where, "no")

    view = memoryview(b"")
    for _ in range(2):
        with pytest.raises(MalformedError, match="x: no"):
            refused(view, "x")
    assert len(asked) == 2
