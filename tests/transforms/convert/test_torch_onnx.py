from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from vitrify import containers
from vitrify.core.document import Document
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.plan import Step
from vitrify.core.protocols import Allow, Subject
from vitrify.formats import _onnx_external
from vitrify.formats.onnx import Onnx
from vitrify.formats.torch_export import TorchExport
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.runtimes.torch import TorchRuntime
from vitrify.transforms.convert.torch_onnx import TorchToOnnx


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.linear(x)).sigmoid())


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 4)
        self.head = torch.nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids, mask):
        hidden = self.embedding(ids) * mask.unsqueeze(-1)
        return {"logits": self.head(hidden), "pooled": hidden.mean(1), "none": None}


class Conv(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
        self.head = torch.nn.Linear(4, 2)

    def forward(self, image):
        return self.head(self.body(image).mean(dim=(2, 3)))


class Sorted(torch.nn.Module):
    def forward(self, x):
        return {"zebra": x * 2, "ant": x.mean(dim=1)}


class Beyond(torch.nn.Module):
    """Two operators that ONNX has no translation for, one of them twice."""

    def forward(self, x):
        return torch.special.i0(x) + torch.special.i0(x + 1), torch.linalg.qr(x)[0]


@dataclass
class Case:
    """A saved module, its opened session, and how to convert it."""

    subject: Subject
    session: Any
    sink: Any

    def step(self, **options: Any) -> Step:
        return Step(transform="t", source="torch-export", target="onnx", fidelity="numeric", options=options)

    def problems(self, **options: Any):
        return TorchToOnnx().problems(self.subject, self.step(**options))

    def convert(self, **options: Any):
        """Return the converted model's session, the model, and what was written."""
        assert self.problems(**options) == ()
        written = TorchToOnnx().apply(self.subject, self.step(**options), self.sink)
        document = self.subject.document.replace(format="onnx", runtime="onnxruntime", entry=written.entry)
        files = self.sink.files()
        return OnnxRuntime().open(files, document, Allow()), Onnx().read(files, written.entry, Allow()), written


@pytest.fixture
def case(store):
    with store.stage() as first, store.stage() as second:

        def make(model, native, **dynamic):
            example = containers.example(native, **dynamic)
            written = TorchExport().write(model, first, example)
            document = Document(
                schema=1, format="torch-export", runtime="torch", entry=written.entry, signature=example.signature
            )
            outputs = TorchRuntime().wrap(model, document).run(example.arrays)
            fields = TorchRuntime().describe_outputs(model, outputs, document.entry)
            document = document.replace(signature=example.signature.replace(outputs=fields))
            document = Document.from_json(document.to_json(), where="as a store keeps it: maps have no order")
            session = TorchRuntime().open(first.files(), document, Allow())
            return Case(Subject(first.files(), document, example.arrays), session, second)

        yield make


def samples(case, rows):
    arrays = {}
    for field in case.subject.document.signature.inputs:
        golden = case.subject.golden[field.name]
        arrays[field.name] = np.resize(golden, (rows, *golden.shape[1:]))
    return arrays


def assert_close(ours, theirs, tolerance):
    assert list(ours) == list(theirs)
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert ours[name].shape == theirs[name].shape
        assert np.allclose(ours[name], theirs[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("make", "native", "tolerance"),
    [
        (Norm, torch.randn(7, 4), 1e-5),
        (lambda: Norm().double(), torch.randn(7, 4, dtype=torch.float64), 1e-13),
        (Tied, {"mask": torch.rand(7, 3), "ids": torch.arange(21).reshape(7, 3) % 11}, 1e-5),
        (Conv, torch.randn(1, 3, 8, 8), 1e-5),
        (Sorted, torch.randn(7, 4), 1e-5),
    ],
    ids=["norm", "float64", "tied", "conv", "outputs in an order of their own"],
)
def test_the_graph_predicts_what_the_program_predicts_for_every_batch_size(make, native, tolerance, case):
    source = case(make(), native)
    session, model, written = source.convert()
    for rows in (1, 2, 5, 33):
        data = samples(source, rows)
        assert_close(session.run(data), source.session.run(data), tolerance)
    fields = source.subject.document.signature.inputs
    assert {value.name for value in model.graph.input} == {field.name for field in fields}
    assert all(value.type.tensor_type.shape.dim[0].dim_param == "batch" for value in model.graph.input)
    assert written.entry["ir"] <= 10


def test_single_precision_is_used_throughout_and_the_types_outside_stay(case):
    source = case(Norm().double(), torch.randn(7, 4, dtype=torch.float64))
    session, model, _ = source.convert(precision="float32")
    data = samples(source, 5)
    ours, theirs = session.run(data)["output"], source.session.run(data)["output"]
    assert ours.dtype == np.float64
    assert np.allclose(ours, theirs, atol=1e-5)
    assert np.array_equal(ours, ours.astype(np.float32)), "the result was not computed in single precision"
    assert not [tensor.name for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.DOUBLE]


def test_single_precision_reaches_into_branches(case):
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x * 0.1, lambda x: x / 3.0, (x,))

    source = case(Branch(), torch.randn(3, 2, dtype=torch.float64))
    session, _, _ = source.convert(precision="float32")
    for data in (np.ones((4, 2)), -np.ones((4, 2))):
        ours, theirs = (opened.run({"x": data})["output"] for opened in (session, source.session))
        assert np.allclose(ours, theirs, atol=1e-6)
        assert not np.array_equal(ours, theirs), "a branch was computed in double precision"


def test_further_dynamic_dimensions_keep_their_names(case):
    class Pool(torch.nn.Module):
        def forward(self, x):
            return x.mean(1), torch.cat([x, x], 1)

    source = case(Pool(), torch.randn(2, 5, 3), dynamic={"x": {1: "length"}})
    session, model, _ = source.convert()
    described = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in model.graph.output]
    assert described == [["batch", 3], ["batch", "2*length", 3]]
    data = {"x": np.random.default_rng(0).normal(size=(4, 9, 3)).astype(np.float32)}
    assert_close(session.run(data), source.session.run(data), 1e-6)


def test_every_operator_without_a_translation_is_listed_before_any_work(case, capfd):
    source = case(Beyond(), torch.randn(3, 3))
    problems = source.problems()
    assert len(problems) == 2
    assert any("qr" in problem.place and "1 call" in problem.message for problem in problems)
    assert any("i0" in problem.place and "2 call" in problem.message for problem in problems)
    assert all(problem.remedy for problem in problems)
    assert not source.sink.files().names()
    assert capfd.readouterr() == ("", "")


def test_a_type_that_onnx_runtime_does_not_compute_with_is_a_problem(case):
    [problem] = case(torch.nn.Linear(2, 2).bfloat16(), torch.randn(3, 2).bfloat16()).problems()
    assert problem.place == "torch.bfloat16"
    assert "float()" in problem.remedy


def test_what_the_exporter_raises_is_our_error_with_its_reason(case):
    source = case(Beyond(), torch.randn(3, 3))
    with pytest.raises(UnsupportedModelError, match="cannot translate"):
        TorchToOnnx().apply(source.subject, source.step(), source.sink)


def test_nothing_is_printed_and_no_path_of_the_machine_is_written(case, capfd):
    _, model, _ = case(Norm(), torch.randn(3, 4)).convert()
    assert capfd.readouterr() == ("", "")
    text = model.SerializeToString()
    assert b".py" not in text
    assert b"pkg.torch" not in text
    facts = {prop.key: prop.value for prop in model.metadata_props}
    assert all(key.startswith("vitrify.") for key in facts)
    assert (facts["vitrify.source_format"], facts["vitrify.torch"]) == ("torch-export", torch.__version__)


def test_the_same_program_gives_the_same_bytes(case, store):
    source = case(Norm(), torch.randn(3, 4))
    source.convert()
    with store.stage() as other:
        again = TorchToOnnx().apply(source.subject, source.step(), other)
        assert other.files().read(again.entry["file"]) == source.sink.files().read(again.entry["file"])


def test_a_large_model_has_external_data(case, monkeypatch):
    monkeypatch.setattr(_onnx_external, "LIMIT", 2000)
    source = case(torch.nn.Linear(100, 20), torch.randn(3, 100))
    session, _, written = source.convert()
    assert written.entry["data"] == ["model.onnx.data"]
    data = samples(source, 5)
    assert_close(session.run(data), source.session.run(data), 1e-5)


def test_the_opset_can_be_chosen(case):
    source = case(Norm(), torch.randn(3, 4))
    assert source.convert(opset=18)[2].entry["opset"] == 18


@pytest.mark.parametrize("options", [{"precision": "float8"}, {"opset": 3}])
def test_an_option_that_is_not_known_is_a_usage_error(options, case):
    with pytest.raises(UsageError):
        case(Norm(), torch.randn(3, 4)).problems(**options)
