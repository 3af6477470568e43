from __future__ import annotations

import logging
import os

import pytest

from vitrify.serve.workers._output import Output


@pytest.fixture
def printed(caplog):
    """Return a function that lets a worker print something, and gives what the log has of it."""

    def printed(data):
        reading, writing = os.pipe()
        with caplog.at_level(logging.INFO, "vitrify.serve.workers"):
            output = Output(reading, "w")
            with os.fdopen(writing, "wb") as stream:
                stream.write(data)
            output.end(60.0)
        return [record.getMessage() for record in caplog.records], output.last()

    return printed


def test_every_line_goes_to_the_log_also_one_without_an_end_and_bytes_that_are_no_text(printed):
    said, last = printed("grün\n\nno text: ".encode() + b"\xff\nhalf")
    assert said == ["w: grün", "w: ", r"w: no text: \xff", "w: half"]
    assert last == "grün\n\nno text: \\xff\nhalf"


def test_a_flood_is_cut_in_length_and_in_number(printed):
    said, last = printed(b"x" * 5_000_000 + b"\n" + b"y\n" * 1000)
    assert len(said) == 201
    assert max(map(len, said)) < 1010
    assert said[-1] == "w: 801 more lines were left out"
    assert last == "\n".join("y" * 20)
