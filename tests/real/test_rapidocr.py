"""RapidOCR: find text on a page, turn it upright, read it (PaddleOCR's networks as ONNX)."""

import itertools

import numpy as np
import onnx
import pytest

import vitrify
from real.inputs import normalised, page, written
from real.published import DEEP, proof, published
from vitrify.checks.parity import Parity

NAMES = {
    "detector": "ch_PP-OCRv4_det_infer.onnx",
    "reader": "ch_PP-OCRv4_rec_infer.onnx",
    "turner": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
}
PAGE = {"x": normalised(page("Hello"), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))}
LINE = {"x": normalised(written("Hello 2026", 34, 48))}


def ways_up():
    line = written("Hello 2026", 30, 48)[:, :192]
    upright = np.full((48, 192, 3), 255, np.uint8)
    upright[:, : line.shape[1]] = line
    return {"x": np.concatenate([normalised(upright), normalised(upright[::-1, ::-1])])}


def file(role):
    return published("rapidocr_onnxruntime", "models", NAMES[role])


@pytest.fixture(scope="module")
def packed(shelf):
    return {role: vitrify.pack(file(role), role, store=shelf) for role in NAMES}


def read(scores, properties):
    """Return the text: the best character of each step, repetitions once, without blanks (CTC)."""
    characters = ["", *properties["character"].splitlines(), " "]
    best = scores[0].argmax(axis=1)
    return "".join(characters[number] for number, _ in itertools.groupby(best))


def properties_of(artifact):
    model = onnx.load_from_string(artifact.files.read(artifact.document.entry["file"]))
    return {one.key: one.value for one in model.metadata_props}


def test_all_three_are_clean():
    assert {vitrify.scan(file(role)).verdict for role in NAMES} == {"clean"}


def test_sizes_that_exporters_write_as_minus_one_or_a_question_mark_may_change_each_alone(packed):
    shapes = {role: artifact.signature.input("x").shape for role, artifact in packed.items()}
    assert shapes["turner"] == ("batch", 3, "x_2", "x_3")
    assert shapes["reader"][:3] == ("batch", 3, "x_2")
    assert shapes["detector"][:2] == ("batch", 3)
    assert len(set(shapes["detector"])) == 4


def test_the_detector_finds_the_text_whatever_the_size_of_the_page(packed):
    session = packed["detector"].session()
    for height, width in ((96, 160), (128, 192)):
        picture = normalised(page("Hello", height, width), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        (found,) = session.run({"x": picture}).values()
        assert found.shape == (1, 1, height, width)
        rows, columns = np.nonzero(found[0, 0] > 0.3)
        assert height / 4 < rows.min() < rows.max() < height * 3 / 4
        assert abs(columns.mean() - width / 2) < width / 10


def test_the_reader_reads(packed):
    (scores,) = packed["reader"].session().run(LINE).values()
    assert read(scores, properties_of(packed["reader"])) == "Hello 2026"


def test_the_turner_knows_what_is_upside_down(packed):
    (scores,) = packed["turner"].session().run(ways_up()).values()
    assert scores.argmax(axis=1).tolist() == [0, 1]


@pytest.mark.parametrize("target", ["ort", "openvino"])
def test_the_detector_is_proven_with_its_sizes_free(packed, shelf, target):
    made = vitrify.convert(packed["detector"], target, samples=PAGE, checks=[Parity(DEEP, rows=4)], store=shelf)
    assert proof(made)["verdict"] == "clean"
    larger = normalised(page("Hello", 128, 192), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    (found,) = made.session().run({"x": larger}).values()
    assert found.shape == (1, 1, 128, 192)


def test_the_vocabulary_in_a_model_s_properties_goes_along_to_another_operator_set(packed, shelf):
    made = vitrify.convert(packed["reader"], opset=17, samples=LINE, checks=[Parity(DEEP, rows=4)], store=shelf)
    assert proof(made)["verdict"] == "clean"
    (scores,) = made.session().run(LINE).values()
    assert read(scores, properties_of(made)) == "Hello 2026"


def test_the_turner_is_proven_as_an_ort_file(packed, shelf):
    made = vitrify.convert(packed["turner"], "ort", samples=ways_up(), checks=[Parity(DEEP, rows=4)], store=shelf)
    assert proof(made)["verdict"] == "clean"


def test_a_picture_too_small_for_openvino_s_pooling_is_told_and_can_be_left_out(packed, shelf):
    """ONNX Runtime answers a picture smaller than the pooling window; OpenVINO refuses it."""
    with pytest.raises(vitrify.VitrifyError, match="larger than the data shape after padding") as refused:
        vitrify.convert(packed["turner"], "openvino", samples=ways_up(), checks=[Parity(DEEP, rows=4)], store=shelf)
    small = {finding.place.split("'")[1] for finding in refused.value.report.findings}
    assert small <= {f"dimension x_{axis}: {size}" for axis in (2, 3) for size in ("one", "half")}
    check = Parity(DEEP, rows=4, without=small)
    made = vitrify.convert(packed["turner"], "openvino", samples=ways_up(), checks=[check], store=shelf)
    assert proof(made)["details"]["left_out"] == sorted(small)
