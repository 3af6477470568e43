from __future__ import annotations

import pytest
from formats import operator_tables as tables

from vitrify.formats._onnx.operators import NATIVE, known
from vitrify.formats._tensorflow import operators


def test_the_table_of_onnx_is_what_the_libraries_define():
    assert tables.ONNX.read_text() == tables.onnx_table()


@pytest.mark.slow
def test_the_table_of_tensorflow_is_what_it_registers():
    from samples.protobufs import tensorflow

    tensorflow()
    assert tables.TENSORFLOW.read_text() == tables.tensorflow_table()


def test_every_operator_that_reaches_out_is_one_that_exists_and_stands_once():
    names = [name for one in operators.REACHES for name in one.names]
    assert len(names) == len(set(names))
    assert all(operators.known(name) for name in (*names, *operators.ONLY_WITH, *operators.OPAQUE))
    assert set(operators.ONLY_WITH) <= set(names)
    assert all(known(*name.rsplit(".", 1)) for name in NATIVE)
