"""Records of predictions are asked again, on the very artifact that answered."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from vitrify import convert, save
from vitrify import open as open_artifact
from vitrify.checks.records import Record, _arrays, replay
from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, ReferenceNotFoundError
from vitrify.core.signature import Field

DIGEST = Digest.of(b"a model")


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    from sklearn.linear_model import LogisticRegression

    from vitrify.stores.oci_layout import OciLayout

    store = OciLayout(tmp_path_factory.mktemp("store"))
    X = np.random.default_rng(0).normal(size=(60, 3))
    save(LogisticRegression().fit(X, X[:, 0] > 0), "churn", example=X, store=store)
    convert("churn", to="onnx", store=store)
    return [open_artifact(name, store=store) for name in ("churn", "churn-onnx")]


def lines_of(artifacts, change=lambda record: record):
    lines = []
    for number, artifact in enumerate(artifacts):
        session = artifact.session()
        inputs = {field.name: np.linspace(-2, 2, 6).reshape(2, 3) for field in session.signature.inputs}
        record = Record.of(artifact.digest, inputs, session.run(inputs), id=f"r{number}")
        lines.append(json.dumps(change(json.loads(record.to_json()))).encode())
    return lines


def finder(artifacts):
    known = {artifact.digest: artifact for artifact in artifacts}

    def find(digest):
        if digest not in known:
            msg = f"no {digest}"
            raise ReferenceNotFoundError(msg)
        return known[digest]

    return find


def test_what_was_answered_is_answered_again(artifacts):
    report = replay([*lines_of(artifacts), b"\n"], finder(artifacts))
    assert report.passed, report
    assert report.details["records"] == 2
    assert all(count["same"] == 1 for count in report.details["artifacts"].values())


def test_another_answer_is_found_with_its_line_and_id(artifacts):
    def other(record):
        name = next(name for name in record["outputs"] if "prob" in name)
        record["outputs"][name][1][0] += 0.25
        return record

    report = replay(lines_of(artifacts[:1], other), finder(artifacts))
    assert report.verdict == "found"
    assert report.findings[0].place.startswith("line 1 (r0): ")


def test_a_model_that_is_gone_is_not_checked(artifacts):
    report = replay(lines_of(artifacts), finder(artifacts[:1]))
    assert report.verdict == "not checked"
    assert report.details["artifacts"][str(artifacts[1].digest)]["unknown"] == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda record: {**record, "inputs": {"nobody": [1]}},
        lambda record: {**record, "inputs": {name: ["x", "y"] for name in record["inputs"]}},
        lambda record: {**record, "inputs": {}},
        lambda record: {**record, "inputs": {name: [[1, 2], [3]] for name in record["inputs"]}},
    ],
    ids=["an unknown column", "text for numbers", "no columns", "ragged"],
)
def test_a_record_that_does_not_fit_the_model_is_a_finding(artifacts, change):
    report = replay(lines_of(artifacts[:1], change), finder(artifacts))
    assert report.verdict == "found"


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"digest": 1}', b"\xff", b'{"digest":"sha256:0","inputs":{},"outputs":{}}']
)
def test_a_line_that_is_no_record_is_named_by_its_number(line):
    with pytest.raises(MalformedError, match="line 2"):
        replay([b"", line], finder([]))


@given(
    hnp.arrays(
        st.sampled_from(["float64", "float32", "int64", "bool"]),
        hnp.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4),
    )
)
def test_every_number_comes_back_as_it_was(array):
    record = Record.of(DIGEST, {"x": array}, {})
    read = Record.from_json(record.to_json(), where="line 1")
    back = _arrays(read.inputs, (Field(name="x", dtype=str(array.dtype)),))["x"]
    np.testing.assert_array_equal(back.reshape(array.shape), array)


def test_missing_integers_and_text_come_back_missing():
    integers = np.ma.MaskedArray(np.array([1, 2], dtype="int64"), mask=[False, True])
    record = Record.of(DIGEST, {"i": integers, "t": np.array(["a", None], dtype=object)}, {})
    back = _arrays(record.inputs, (Field(name="i", dtype="int64", nullable=True), Field(name="t", dtype="string")))
    assert back["i"].mask.tolist() == [False, True]
    assert back["t"].tolist() == ["a", None]
