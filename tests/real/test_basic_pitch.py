"""Basic Pitch: which notes sound; one network as SavedModel, TFLite, ONNX and Core ML."""

import itertools

import numpy as np
import pytest

import vitrify
from real.inputs import chord
from real.published import DEEP, Renamed, proof, published
from vitrify.checks.parity import Parity
from vitrify.checks.parity.compare import compare_sessions
from vitrify.core.errors import CheckFailedError

SOUND = chord()
FILES = {"saved-model": "nmp", "tflite": "nmp.tflite", "onnx": "nmp.onnx", "coreml": "nmp.mlpackage"}
NAMES = {
    "saved-model": ("input_2", ("note", "onset", "contour")),
    "tflite": ("input_2", ("note", "onset", "contour")),
    "onnx": ("serving_default_input_2:0", tuple(f"StatefulPartitionedCall:{number}" for number in (1, 2, 0))),
}
SHAPES = {"note": 88, "onset": 88, "contour": 264}
MANY = ("batch of 33",)
"""A minute of sound is more than a test needs."""

DEEPLY = Parity(DEEP, rows=1, without=MANY)

LOWEST = 21
"""The MIDI note of the first column."""


def file(form):
    return published("basic_pitch", "saved_models", "icassp_2022", FILES[form])


@pytest.fixture(scope="module")
def packed(shelf):
    made = {}

    def pack(form):
        if form not in made:
            made[form] = vitrify.pack(file(form), store=shelf)
        return made[form]

    return pack


def session(artifact):
    """Return a session under the names of the saved model."""
    given, gives = NAMES[artifact.document.format]
    return Renamed(artifact.session(), {"sound": given}, dict(zip(("note", "onset", "contour"), gives, strict=True)))


@pytest.mark.parametrize("form", FILES)
def test_every_form_is_clean_and_known(form):
    assert vitrify.scan(file(form)).verdict == "clean"


def test_it_hears_the_chord(packed):
    answers = session(packed("onnx")).run({"sound": SOUND})
    loudest = np.argsort(answers["note"][0].max(axis=0))[-3:] + LOWEST
    assert sorted(loudest.tolist()) == [57, 61, 64]  # A3, C#4, E4


def test_the_core_ml_package_has_the_shapes_of_the_others(packed):
    """Nothing runs it here: it is held against the ONNX form by what it declares."""
    from vitrify.formats.coreml import CoreMl

    artifact = packed("coreml")
    assert artifact.document.runtime is None
    described = CoreMl().describe(artifact.files, artifact.document.entry)
    assert [one["shape"] for one in described["inputs"]] == [[1, 43_844, 1]]
    assert sorted(one["shape"] for one in described["outputs"]) == sorted([1, 172, width] for width in SHAPES.values())


@pytest.mark.slow
@pytest.mark.parametrize("pair", [*itertools.combinations(("onnx", "tflite", "saved-model"), 2)], ids="-".join)
def test_its_forms_agree_with_each_other(packed, pair):
    source, candidate = (session(packed(form)) for form in pair)
    report = compare_sessions(candidate, source, {"sound": SOUND}, DEEP, row_count=1, without=MANY)
    assert report.verdict == "clean", report
    assert {field.name: field.shape[1:] for field in source.signature.outputs} == {
        name: (172, width) for name, width in SHAPES.items()
    }


@pytest.mark.slow
def test_openvino_is_proven(packed, shelf):
    sound = {NAMES["onnx"][0]: SOUND}
    made = vitrify.convert(packed("onnx"), "openvino", samples=sound, checks=[DEEPLY], store=shelf)
    assert proof(made)["verdict"] == "clean"


@pytest.mark.slow
def test_onnx_runtime_s_plain_kernels_are_less_exact_on_it_and_the_default_tolerance_says_so(packed, shelf):
    """An ORT file keeps to portable kernels; those are 40 times further from all other engines than these are apart."""
    sound = {NAMES["onnx"][0]: SOUND}
    with pytest.raises(CheckFailedError, match="times what is allowed"):
        vitrify.convert(packed("onnx"), "ort", samples=sound, checks=[Parity(rows=1, without=MANY)], store=shelf)
    made = vitrify.convert(packed("onnx"), "ort", samples=sound, checks=[DEEPLY], store=shelf)
    assert proof(made)["verdict"] == "clean"
