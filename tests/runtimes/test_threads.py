"""What a server asks of runtimes: few threads, and no second look at arrays that fit already."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from served_models import ROWS, outputs, signature, times

from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import SignatureError
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.runtimes.threads import threads, wanted


def session(factor=2):
    document = Document(schema=SCHEMA, format="onnx", runtime="onnxruntime", signature=signature())
    return OnnxRuntime().wrap(times(factor), document)


def options(one):
    return one._call.__self__.get_session_options()


def test_a_session_that_is_opened_for_a_number_of_threads_has_as_many_and_none_that_spins():
    with threads(3):
        one = session()
    assert (options(one).intra_op_num_threads, options(one).inter_op_num_threads) == (3, 1)
    assert options(one).get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options(session()).intra_op_num_threads == 0  # the runtime's own choice


def test_the_number_holds_inside_the_block_and_this_thread_only():
    seen = []
    with threads(1):
        with threads(2):
            assert wanted() == 2
        other = threading.Thread(target=lambda: seen.append(wanted()))
        other.start()
        other.join()
        assert wanted() == 1
    assert (wanted(), seen) == (0, [0])


@pytest.mark.parametrize("count", [0, 1, 2])
def test_answers_are_the_same_to_the_bit_with_any_number_of_threads(count):
    with threads(count):
        got = session().run({"X": ROWS})
    for name, array in outputs(2).items():
        assert np.array_equal(got[name], array)


def test_arrays_that_fit_are_run_without_a_second_look_and_no_rows_without_the_model():
    one = session()
    assert np.array_equal(one.run_conformed({"X": ROWS})["Y"], one.run({"X": ROWS})["Y"])
    assert one.run_conformed({"X": ROWS[:0]})["L"].shape == (0,)
    with pytest.raises(SignatureError):
        one.run({"X": ROWS[:, :2]})
