"""Silero VAD: is somebody speaking; a recurrent network in TorchScript, four ONNX forms and safetensors.

The TorchScript form keeps its memory and the end of the last chunk itself; the ONNX forms take both from their caller.
"""

import numpy as np
import onnx
import pytest

import vitrify
from real.inputs import speech
from real.published import DEEP, Renamed, proof, published
from vitrify.checks.parity import Parity
from vitrify.checks.parity.compare import compare_sessions
from vitrify.checks.parity.tolerance import Tolerance

CONTEXT = 64
RATE = np.array(16_000)
STATE = {"state": "stateN"}
CHUNKS = speech()
FIRST = {
    "input": np.hstack([np.zeros((1, CONTEXT), np.float32), CHUNKS[:1]]),
    "state": np.zeros((2, 1, 128), np.float32),
}
FORMS = {
    "opset 16": "silero_vad.onnx",
    "opset 15": "silero_vad_16k_op15.onnx",
    "opset 18": "silero_vad_op18_ifless.onnx",
    "fixed": "silero_vad_openvino_16k.onnx",
    "half": "silero_vad_half.onnx",
}


def file(name):
    return published("silero_vad", "data", name)


@pytest.fixture(scope="module")
def packed(shelf):
    return {form: vitrify.pack(file(name), store=shelf) for form, name in FORMS.items()}


@pytest.fixture(scope="module")
def scripted(shelf):
    example = {"x": CHUNKS[:1], "sr": RATE}
    return vitrify.pack(file("silero_vad.jit"), example=example, dynamic={"x": {0: 1}}, store=shelf)


def asked(artifact, samples=FIRST):
    """Return what a form takes: some know their rate."""
    names = [field.name for field in artifact.signature.inputs]
    return {name: {**samples, "sr": RATE}[name] for name in names}


def heard(session, names, chunks=CHUNKS):
    """Return the probability of speech of each chunk, the caller carrying memory and context."""
    state, context, found = FIRST["state"], np.zeros((1, CONTEXT), np.float32), []
    for chunk in chunks:
        given = {"input": np.hstack([context, chunk[np.newaxis]]), "state": state, "sr": RATE}
        answer = session.run({name: given[name] for name in names})
        state, context = answer["stateN"], given["input"][:, -CONTEXT:]
        found.append(answer["output"].item())
    return np.array(found)


def heard_by_script(session):
    return np.array([next(iter(session.run({"x": chunk[np.newaxis], "sr": RATE}).values())).item() for chunk in CHUNKS])


def test_every_form_is_clean():
    names = [*FORMS.values(), "silero_vad.jit", "silero_vad_16k.safetensors", "silero_vad_16k_sequence.onnx"]
    assert {name: vitrify.scan(file(name)).verdict for name in names} == dict.fromkeys(names, "clean")


def test_it_tells_speech_from_silence(packed):
    sound = np.vstack([speech(12), np.zeros((12, 512), np.float32)])
    found = heard(packed["opset 16"].session(), ["input", "state", "sr"], sound)
    assert found[:12].max() > 0.5
    assert found[-1] < 0.1


@pytest.mark.parametrize("form", ["opset 15", "opset 18"])
def test_the_operator_sets_agree_over_many_calls(packed, form):
    source, other = packed["opset 16"].session(), packed[form].session()
    report = compare_sessions(other, source, asked(packed[form]), DEEP, row_count=2, state=STATE)
    assert report.verdict == "clean", report
    assert report.details["steps"]["calls"] == 12


class Rated(Renamed):
    """A form that is told its rate, under the names of one that knows it."""

    def __init__(self, session):
        super().__init__(session, {name: name for name in FIRST}, {"output": "output", "stateN": "stateN"})

    def run(self, inputs):
        return self._session.run({**inputs, "sr": RATE})


def test_the_form_of_fixed_sizes_agrees_over_many_calls(packed):
    general, fixed = Rated(packed["opset 16"].session()), packed["fixed"].session()
    report = compare_sessions(general, fixed, FIRST, DEEP, row_count=2, state=STATE)
    assert report.verdict == "clean", report
    assert report.details["steps"]["absolute"]["output"] < 1e-5


def test_the_file_called_half_is_found_to_be_another_network(packed):
    """It holds float32, and none of the weights of the others: of the name only the kind of answer is true."""
    model = onnx.load_from_string(packed["half"].files.read(packed["half"].document.entry["file"]))
    assert {tensor.data_type for tensor in model.graph.initializer} == {onnx.TensorProto.FLOAT}
    half, full = packed["half"].session(), Rated(packed["opset 16"].session())
    report = compare_sessions(half, full, FIRST, Tolerance(rtol=1e-2, atol=1e-2), row_count=2, state=STATE)
    assert report.verdict == "found"
    assert report.details["outputs"]["stateN"]["absolute"]["max"] > 1


def test_the_scripted_form_hears_what_the_onnx_form_hears_and_again_after_a_reset(packed, scripted):
    session = scripted.session()
    first = heard_by_script(session)
    np.testing.assert_allclose(first, heard(packed["opset 16"].session(), ["input", "state", "sr"]), atol=1e-5)
    assert np.abs(heard_by_script(session) - first).max() > 1e-4
    session.reset()
    np.testing.assert_array_equal(heard_by_script(session), first)


@pytest.mark.parametrize("form", ["opset 16", "fixed"])
def test_an_ort_file_is_proven_over_many_calls(packed, shelf, form):
    check = Parity(rows=2, state=STATE)
    made = vitrify.convert(packed[form], "ort", samples=asked(packed[form]), checks=[check], store=shelf)
    assert proof(made)["details"]["steps"]["calls"] == 12


@pytest.mark.parametrize("form", ["opset 18", "fixed"])
def test_openvino_is_proven_where_the_ranks_are_known(packed, shelf, form):
    check = Parity(DEEP, rows=2, state=STATE)
    made = vitrify.convert(packed[form], "openvino", samples=asked(packed[form]), checks=[check], store=shelf)
    assert proof(made)["verdict"] == "clean"


def test_a_rank_that_hangs_on_a_branch_is_refused_before_any_work(packed, shelf):
    with pytest.raises(vitrify.VitrifyError, match="rank"):
        vitrify.convert(packed["opset 16"], "openvino", samples=asked(packed["opset 16"]), store=shelf)


def test_a_memory_inside_a_script_is_refused_by_onnx_which_has_none(scripted, shelf):
    with pytest.raises(vitrify.VitrifyError, match="assigns to the module's own attributes"):
        vitrify.convert(scripted, "onnx", store=shelf)
