from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from formats import operator_tables as tables

from vitrify.formats._onnx.operators import NATIVE, known
from vitrify.formats._tensorflow import operators


def test_the_table_of_onnx_is_what_the_libraries_define():
    assert tables.ONNX.read_text() == tables.onnx_table()


@pytest.mark.slow
def test_the_table_of_tensorflow_is_what_it_registers():
    # In a process of its own: libraries that other tests import register operators of theirs.
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import operator_tables as tables; "
    code += "sys.stdout.write(tables.tensorflow_table())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == tables.TENSORFLOW.read_text()


def test_every_operator_that_reaches_out_is_one_that_exists_and_stands_once():
    names = [name for one in operators.REACHES for name in one.names]
    assert len(names) == len(set(names))
    assert all(operators.known(name) for name in (*names, *operators.ONLY_WITH, *operators.OPAQUE))
    assert set(operators.ONLY_WITH) <= set(names)
    assert all(known(*name.rsplit(".", 1)) for name in NATIVE)
