"""Roads from and to PyTorch: each proven through the whole flow, and what each refuses."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import vitrify
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.plan import Step
from vitrify.formats.onnx import Onnx
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert.coreml import TorchToCoreMl

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")]

X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] > 0, "yes", "no")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(2, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4 * 16, 3)

    def forward(self, image, shift):
        hidden = torch.nn.functional.gelu(self.norm(self.conv(image)))
        return {"logits": self.head(hidden.reshape(hidden.shape[0], -1)) + shift, "twice": shift * 2}


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor, by: int) -> torch.Tensor:
        self.seen += by
        return x + self.seen


def pictures():
    torch.manual_seed(1)
    return {"image": torch.randn(3, 2, 4, 4), "shift": torch.randn(3, 3)}


def layers():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()


def rows():
    return torch.tensor(X[:8], dtype=torch.float32)


class TestExportedToTorchScript(TransformConformance):
    name = "torch-export-to-torchscript"

    def model(self):
        return Net().eval()

    def example(self):
        return pictures()


class TestTorchScriptToOnnx(TransformConformance):
    name = "torchscript-to-onnx"

    def model(self):
        return torch.jit.trace(layers(), rows())

    def example(self):
        return rows()


class TestTorchToCoreMl(TransformConformance):
    name = "torch-export-to-coreml"

    def model(self):
        return Net().eval()

    def example(self):
        return pictures()

    def impossible(self):
        class Wide(torch.nn.Module):
            def forward(self, image, shift):
                return torch.special.bessel_j0(image.double()), shift

        return Wide()


class TestScriptToCoreMl(TransformConformance):
    name = "torchscript-to-coreml"

    def model(self):
        return torch.jit.trace(layers(), rows())

    def example(self):
        return rows()


def proto():
    """Return a small graph of ONNX with a loop, a size that may change, and weights with dots in their names."""
    weight = onnx.numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "fc.weight")
    count = onnx.numpy_helper.from_array(np.array(3), "count")
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "state"], ["next"]),
            helper.make_node("Identity", ["go"], ["still"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["product"]),
        helper.make_node("Loop", ["count", "", "product"], ["looped"], body=body),
        helper.make_node("Shape", ["looped"], ["shape"]),
        helper.make_node("Reshape", ["looped", "shape"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [weight, count],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


class TestOnnxToTorch(TransformConformance):
    name = "onnx-to-torch-export"

    def model(self):
        return proto()

    def example(self):
        return {"x": X[:6].astype(np.float32)}

    def impossible(self):
        strings = [helper.make_tensor_value_info(name, TensorProto.STRING, ["batch"]) for name in ("a", "b")]
        nodes = [helper.make_node("Identity", ["a"], ["c"])]
        out = [helper.make_tensor_value_info("c", TensorProto.STRING, ["batch"])]
        graph = helper.make_graph(
            [*nodes, helper.make_node("Identity", ["b"], ["d"])],
            "g",
            strings,
            [*out, helper.make_tensor_value_info("d", TensorProto.STRING, ["batch"])],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def test_what_it_cannot_do_is_listed_at_once_with_a_remedy(self):
        words = np.array(["a", "b"], object)
        vitrify.save(self.impossible(), "source", example={"a": words, "b": words})
        with pytest.raises(UnsupportedModelError) as caught:
            vitrify.convert("source", to="torch-export")
        assert len(caught.value.problems) == 4


def test_initialisers_keep_their_names_and_sizes_stay_free(store):
    vitrify.save(proto(), "g", example={"x": X[:6].astype(np.float32)})
    program = vitrify.convert("g", to="torch-export")
    assert list(program.model().state_dict()) == ["fc.weight"]
    for size in (1, 2, 9):
        assert vitrify.load("g-torch-export").predict({"x": np.ones((size, 3), np.float32)})["y"].shape == (size, 2)


@pytest.mark.parametrize(
    "model", [LogisticRegression(), RandomForestClassifier(5, random_state=0)], ids=["linear", "forest"]
)
def test_an_estimator_gets_to_torchscript_through_the_hub_and_gives_its_own_labels(model, store):
    vitrify.save(model.fit(X, Y), "m", example=X)
    made = vitrify.convert("m", to="torchscript")
    assert made.signature.output("label").classes == ("no", "yes")
    assert vitrify.load("m-torchscript").predict(X)["label"].tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("names", [("größe", "gr__e", "日本"), ("x" * 2000, "x" * 1999, "lambda")])
def test_inputs_may_be_called_anything(names, store):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch"]) for name in (*names, "y")]
    graph = helper.make_graph([helper.make_node("Sum", [*names], ["y"])], "sum", ends[:-1], ends[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    given = {name: np.arange(4, dtype=np.float32) * place for place, name in enumerate(names, start=1)}
    vitrify.save(model, "m", example=given)
    vitrify.convert("m", to="torch-export")
    assert vitrify.load("m-torch-export").predict(given)["y"].tolist() == [0, 6, 12, 18]


def test_a_forest_gets_to_core_ml_in_single_precision(store):
    single = X.astype(np.float32)
    single[::9, 1] = np.nan
    labels = (Y == "yes").astype(int)
    vitrify.save(RandomForestClassifier(3, max_depth=3, random_state=0).fit(single, labels), "m", example=single)
    assert vitrify.convert("m", to="coreml", precision="float32").document.format == "coreml"


def test_control_flow_comes_through_to_torchscript(store):
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    vitrify.save(Branch(), "b", example=rows())
    vitrify.convert("b", to="torchscript")
    session = vitrify.load("b-torchscript")
    for data in (np.ones((2, 3), np.float32), -np.ones((2, 3), np.float32)):
        assert np.array_equal(session.predict(data)["output"], Branch()(torch.from_numpy(data)).numpy())


def test_a_dict_that_a_script_returns_becomes_outputs_of_onnx(store):
    class Both(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            return {"sum": x + y, "flat": x.reshape(x.shape[0], -1)}

    vitrify.save(torch.jit.script(Both()), "b", example={"x": torch.randn(3, 2), "y": torch.randn(3, 2)})
    assert vitrify.convert("b").document.entry["outputs"] == {"flat": "flat", "sum": "sum"}


@pytest.mark.parametrize("target", ["onnx", "coreml"])
def test_a_script_that_remembers_or_takes_numbers_is_refused_with_both_reasons(target, store):
    vitrify.save(torch.jit.script(Counter().eval()), "c", example={"x": torch.zeros(2, 1), "by": 2})
    with pytest.raises(UnsupportedModelError) as caught:
        vitrify.convert("c", to=target)
    assert [problem.place for problem in caught.value.problems] == ["by", "forward"]


def test_a_program_of_somebody_else_says_itself_what_it_takes(tmp_path, store):
    batch = torch.export.Dim("rows")
    dynamic = {"image": {0: batch}, "shift": {0: batch}}
    given = pictures()
    program = torch.export.export(Net().eval(), (given["image"],), {"shift": given["shift"]}, dynamic_shapes=dynamic)
    torch.export.save(program, tmp_path / "net.pt2")
    packed = vitrify.pack(tmp_path / "net.pt2", "net")
    assert [str(field) for field in packed.signature.inputs] == [
        "image: float32[batch, 2, 4, 4]",
        "shift: float32[batch, 3]",
    ]
    answer = vitrify.load("net").predict({name: value.numpy() for name, value in given.items()})
    with torch.no_grad():
        assert np.array_equal(answer["logits"], Net().eval()(**given)["logits"].numpy())
    with_example = vitrify.pack(tmp_path / "net.pt2", "net2", example=given)
    assert vitrify.convert(with_example).document.entry["inputs"] == {"image": "image", "shift": "shift"}


def test_a_row_whose_keys_are_all_masked_has_no_attention_in_onnx_either(store):
    class Attends(torch.nn.Module):
        def forward(self, x, keep):
            mask = (keep > 0).unsqueeze(1)
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    keep = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1]])
    vitrify.save(Attends(), "a", example={"x": torch.randn(3, 3, 4), "keep": keep})
    vitrify.convert("a")
    answer = vitrify.load("a-onnx").predict({"x": np.ones((1, 3, 4), np.float32), "keep": np.zeros((1, 3), np.int64)})
    assert not answer["output"].any()


def test_double_precision_gets_to_core_ml_only_where_that_is_asked_for(store):
    vitrify.save(layers().double(), "d", example=torch.tensor(X[:8]))
    with pytest.raises(UnsupportedModelError, match="float64"):
        vitrify.convert("d", to="coreml")
    made = vitrify.convert("d", to="coreml", precision="float32")
    assert any("float32 in Core ML" in note for note in made.document.notes)
    assert made.document.runtime is None


def test_what_coremltools_lacks_of_booleans_and_vectors_is_written_out(store):
    class Flags(torch.nn.Module):
        def forward(self, x):
            some = ((x > 0) & (x < 1)) | (x < -1)
            chosen = torch.where(some ^ (x > 2), x, 0)
            return torch.gather(some, 1, x.argmax(1, keepdim=True)), chosen @ torch.ones(3), chosen @ torch.ones(3, 2)

    vitrify.save(Flags(), "m", example=rows())
    assert vitrify.convert("m", to="coreml").document.format == "coreml"


@pytest.mark.parametrize(
    ("forward", "place"),
    [(lambda x: torch.cummax(x, 1)[0], "aten.cummax.default"), (lambda x: torch.sort(x > 0, 1)[0], "forward")],
    ids=["an operator", "a type"],
)
def test_what_coremltools_cannot_translate_is_said_before_the_work(forward, place, store):
    class Net(torch.nn.Module):
        def forward(self, x):
            return forward(x)

    source = vitrify.save(Net(), "m", example=rows()).subject()
    step = Step(transform="torch-export-to-coreml", source="torch-export", target="coreml", fidelity="numeric")
    assert [one.place for one in TorchToCoreMl().problems(source, step)] == [place]


class Uneven(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x[:, :2]
        return x


def test_a_branch_that_changes_the_size_of_the_answer_is_named_before_the_work(store):
    vitrify.save(torch.jit.script(Uneven()), "m", example=rows())
    with pytest.raises(UnsupportedModelError, match=r"torch.gt\(torch.sum\(x\), 0\).*\[\?, 2\] and \[\?, 3\]"):
        vitrify.convert("m", to="onnx")


class Sides(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = torch.cat([x, x], 1)
        if x.max() > 2:
            return x.sum(1) * 2
        return x.sum(1)


def test_branches_by_values_are_branches_in_onnx(store):
    vitrify.save(torch.jit.script(Sides()), "m", example=rows())
    made = vitrify.convert("m", to="onnx")
    graph = Onnx().read(made.files, made.document.entry, made.subject().allow).graph
    assert [node.op_type for node in graph.node].count("If") == 2
