from __future__ import annotations

import collections
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from vitrify import containers
from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError, UntrustedCodeError, UsageError
from vitrify.core.protocols import Allow
from vitrify.formats.torch_export import TorchExport, read_program
from vitrify.inspection.identify import files_at


class Norm(torch.nn.Module):
    """What F24 is about: batch statistics and chance."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.linear(x)))


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 4)
        self.head = torch.nn.Linear(4, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


class Conv(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, image):
        return self.conv(image).relu().mean(dim=(2, 3))


class Odd(torch.nn.Module):
    """Everything that a program can hold besides parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.arange(4.0))
        self.register_buffer("lost", torch.arange(4.0) * 2, persistent=False)
        self.register_buffer("empty", torch.zeros(0, 4))
        self.plain = torch.ones(4)

    def forward(self, x):
        return torch.cat([x * self.kept + self.lost - self.plain + torch.tensor([1.0, 2, 3, 4]), self.empty])


@dataclass
class Result:
    logits: torch.Tensor
    hidden: Any = None
    extra: Any = None


Named = collections.namedtuple("Named", ["first", "second"])  # noqa: PYI024 (the kind that modules return)


class Returns(torch.nn.Module):
    def __init__(self, make) -> None:
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def save(model, native, files_and_sink, **dynamic):
    place = files_and_sink()
    written = TorchExport().write(model, place.sink, containers.example(native, **dynamic))
    return written, place


def load(model, native, files_and_sink, **dynamic):
    written, place = save(model, native, files_and_sink, **dynamic)
    entry = json.loads(json.dumps(written.entry))
    return TorchExport().read(place.files(), entry, Allow())


@pytest.mark.parametrize("rows", [1, 2, 5, 33])
@pytest.mark.parametrize(
    ("make", "sample"),
    [
        (Norm, lambda n: torch.randn(n, 4)),
        (Tied, lambda n: torch.arange(n * 3).reshape(n, 3) % 11),
        (Conv, lambda n: torch.randn(n, 3, 6, 6)),
        (Odd, lambda n: torch.randn(n, 4)),
        (lambda: Norm().double(), lambda n: torch.randn(n, 4, dtype=torch.float64)),
        (lambda: Norm().bfloat16(), lambda n: torch.randn(n, 4, dtype=torch.bfloat16)),
    ],
    ids=["norm", "tied", "conv", "odd", "float64", "bfloat16"],
)
def test_a_module_comes_back_equal_to_the_bit_for_every_batch_size(make, sample, rows, files_and_sink):
    model = make()
    back = load(model, sample(rows), files_and_sink)
    model.eval()
    for size in (1, 2, 5, 33):
        data = sample(size)
        assert torch.equal(back(data), model(data))


def test_a_module_in_training_mode_is_exported_in_eval_mode_and_left_as_it_was(files_and_sink):
    model = Norm()
    model.norm.eval()
    written, place = save(model, torch.randn(3, 4), files_and_sink)
    assert "eval mode" in written.notes[0]
    assert [module.training for module in model.modules()] == [True, True, False, True]
    assert "forward" not in model.__dict__
    back = TorchExport().read(place.files(), written.entry, Allow())
    data = torch.randn(5, 4)
    assert torch.equal(back(data), back(data))
    assert not any(module.training for module in back.modules())


def test_a_loaded_module_can_be_saved_again_to_the_same_bytes(files_and_sink):
    written, place = save(Tied(), torch.arange(3), files_and_sink)
    back = TorchExport().read(place.files(), written.entry, Allow())
    again, second = save(back, torch.arange(3), files_and_sink)
    assert again.entry == written.entry
    assert second.files().read("model.safetensors") == place.files().read("model.safetensors")


def test_hooks_of_a_module_run_once_and_are_in_the_program(files_and_sink):
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(lambda module, args, output: output + 1)
    back = load(model, torch.randn(3, 2), files_and_sink)
    data = torch.randn(4, 2)
    assert torch.equal(back(data), model(data))


def test_a_module_in_eval_mode_needs_no_note(files_and_sink):
    assert save(Norm().eval(), torch.randn(3, 4), files_and_sink)[0].notes == ()


def test_the_same_module_gives_the_same_bytes_whatever_the_batch(files_and_sink):
    model = Norm()
    copies = [save(model, torch.randn(rows, 4), files_and_sink)[1].files() for rows in (3, 3, 1)]
    assert len({tuple(files.read(name) for name in files.names()) for files in copies[:2]}) == 1
    assert copies[2].read("model.safetensors") == copies[0].read("model.safetensors")


def test_no_path_of_the_machine_is_written(files_and_sink):
    _, place = save(Norm(), torch.randn(3, 4), files_and_sink)
    text = place.files().read("program.json").decode()
    assert ".py" not in text
    assert "stack_trace" not in text
    assert "nn_module_stack" not in text


def test_tied_weights_are_stored_once_and_stay_tied(files_and_sink):
    written, place = save(Tied(), torch.arange(3), files_and_sink)
    described = TorchExport().describe(place.files(), written.entry)
    assert (len(described["tensors"]), described["bytes"], len(described["tied"])) == (1, 176, 1)
    back = TorchExport().read(place.files(), written.entry, Allow())
    assert back.head.weight is back.embedding.weight


def test_weights_are_not_copied_when_loaded(files_and_sink):
    back = load(torch.nn.Linear(1000, 10), torch.randn(2, 1000), files_and_sink)
    # The mapping's pages belong to the file; a tensor of PyTorch's own allocator would be resizable.
    assert not back.weight.untyped_storage().resizable()
    assert back.weight.requires_grad is False


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda x: x, ["output"]),
        (lambda x: (x, x + 1), ["output_0", "output_1"]),
        (lambda x: [x], ["output_0"]),
        (lambda x: (x, None, [x + 1, (x + 2,)]), ["output_0", "output_1", "output_2"]),
        (lambda x: {"b": x, "a": x + 1, "none": None}, ["b", "a"]),
        (lambda x: collections.OrderedDict(logits=x, states=(x, x + 1)), ["logits", "states_0", "states_1"]),
        (lambda x: Result(logits=x, hidden=(x + 1, None)), ["logits", "hidden_0"]),
        (lambda x: Named(x, x + 1), ["first", "second"]),
        (lambda x: {1: x, "deep": {"er": x}}, ["1", "deep_er"]),
    ],
)
def test_outputs_of_any_container_have_names_and_need_no_class(make, names, files_and_sink):
    model = Returns(make)
    written, place = save(model, torch.randn(3, 2), files_and_sink)
    assert written.entry["outputs"] == names
    assert set(map(tuple, written.entry["shapes"].values())) == {("batch", 2)}
    back = TorchExport().read(place.files(), written.entry, Allow())(torch.ones(4, 2))
    assert isinstance(back, (torch.Tensor, tuple, dict))
    assert "tests" not in place.files().read("program.json").decode()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda x: (x, "text"), "str"),
        (lambda x: {"n": 3, "x": x}, "int"),
        (lambda x: {"a": {"b": x}, "a_b": x}, "same name"),
        (lambda x: object(), "object"),
    ],
)
def test_an_output_that_is_no_tensor_is_refused_by_name(make, word, files_and_sink):
    with pytest.raises(UnsupportedModelError, match=word):
        save(Returns(make), torch.randn(3, 2), files_and_sink)


class Weighted(torch.nn.Module):
    def forward(self, ids, weights, *, scale=None):
        return ids.float() * weights + (0 if scale is None else scale)


class Open(torch.nn.Module):
    def forward(self, first, **rest):
        return first + rest["second"]


class Many(torch.nn.Module):
    def forward(self, *parts):
        return parts[0] - parts[1]


@pytest.mark.parametrize(
    ("model", "native", "order"),
    [
        (Weighted(), (torch.ones(3), torch.ones(3)), ["input_0", "input_1"]),
        (Weighted(), {"weights": torch.ones(3), "scale": torch.zeros(3), "ids": torch.ones(3)}, None),
        (Open(), {"second": torch.ones(3), "first": torch.ones(3)}, None),
        (Many(), (torch.ones(3), torch.zeros(3)), ["input_0", "input_1"]),
        (torch.nn.ReLU(), np.ones((3, 2), np.float32), ["X"]),
    ],
)
def test_inputs_by_name_and_by_position(model, native, order, files_and_sink):
    written, place = save(model, native, files_and_sink)
    back = TorchExport().read(place.files(), written.entry, Allow())
    if isinstance(native, dict):
        assert sorted(written.entry["inputs"]) == sorted(native)
        data = {name: torch.arange(5.0) + len(name) for name in native}
        assert torch.equal(back(**data), model(**data))
    else:
        assert written.entry["inputs"] == order
        parts = native if isinstance(native, tuple) else (torch.from_numpy(native),)
        assert torch.equal(back(*parts), model(*parts))


def test_more_dimensions_may_change_and_outputs_say_which(files_and_sink):
    class Pool(torch.nn.Module):
        def forward(self, x):
            return {"mean": x.mean(1), "twice": torch.cat([x, x], 1), "fixed": x[:1, 0]}

    written, place = save(Pool(), torch.randn(2, 2, 3), files_and_sink, dynamic={"x": {1: "length"}})
    assert written.entry["shapes"] == {
        "mean": ["batch", 3],
        "twice": ["batch", "2*length", 3],
        "fixed": [1, 3],
    }
    back = TorchExport().read(place.files(), written.entry, Allow())
    assert back(torch.randn(4, 7, 3))["twice"].shape == (4, 14, 3)


class Positions(torch.nn.Module):
    """A table of positions bounds a size that may otherwise change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(64.0))

    def forward(self, tokens):
        return tokens + self.table[: tokens.shape[1]]


def test_a_size_that_the_module_bounds_may_change_within_the_bound_and_a_note_says_so(files_and_sink):
    dynamic = {"x": {1: "tokens"}}
    written, place = save(Positions().eval(), torch.ones(2, 4), files_and_sink, dynamic=dynamic)
    assert written.notes == ("dimension 'tokens' has bounds of the module's own: max=64",)
    module = TorchExport().read(place.files(), written.entry, Allow())
    assert module(torch.zeros(3, 64)).shape == (3, 64)


def test_a_module_for_one_batch_size_only_is_refused_with_the_way_out(files_and_sink):
    model = Returns(lambda x: x.reshape(3, 2))
    with pytest.raises(UnsupportedModelError, match="own sizes only") as caught:
        save(model, torch.randn(3, 2), files_and_sink)
    assert "dynamic=" in caught.value.remedy
    back = load(model, torch.randn(3, 2), files_and_sink, dynamic={"x": {0: 3}})
    assert back(torch.ones(3, 2)).shape == (3, 2)


def test_python_that_depends_on_data_is_refused_with_torchs_reason(files_and_sink, capfd):
    with pytest.raises(UnsupportedModelError, match="data-dependent"):
        save(Returns(lambda x: x if x.sum() > 0 else -x), torch.randn(3, 2), files_and_sink)
    assert capfd.readouterr() == ("", "")


def test_a_module_that_rejects_its_example_is_the_modules_own_error(files_and_sink, capfd):
    with pytest.raises(ModelError, match="rejects the example"):
        save(torch.nn.Linear(3, 1), torch.randn(2, 5), files_and_sink)
    with pytest.raises(ModelError, match="rejects the example"):
        save(torch.nn.Linear(3, 1), {"wrong": torch.randn(2, 3)}, files_and_sink)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("native", [(torch.ones(2), 3), {"x": torch.ones(2), "n": [1, 2]}])
def test_an_argument_that_is_no_tensor_is_refused(native, files_and_sink):
    with pytest.raises(UnsupportedModelError, match="takes tensors"):
        save(Weighted(), native, files_and_sink)


def test_a_table_or_nothing_is_no_example_for_a_module(files_and_sink):
    with pytest.raises(UnsupportedModelError, match="records"):
        save(Norm(), [{"a": 1.0}], files_and_sink)
    with pytest.raises(UsageError, match="example"):
        TorchExport().write(Norm(), files_and_sink().sink, None)


def test_a_module_that_changes_its_own_buffer_leaves_the_file_alone(files_and_sink):
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x):
            self.seen += 1
            return x + self.seen

    written, place = save(Counter(), torch.zeros(2), files_and_sink)
    before = place.files().read("model.safetensors")
    back = TorchExport().read(place.files(), written.entry, Allow())
    assert [float(back(torch.zeros(2))[0]) for _ in range(2)] == [1.0, 2.0]
    assert place.files().read("model.safetensors") == before
    assert float(TorchExport().read(place.files(), written.entry, Allow())(torch.zeros(2))[0]) == 1.0


def test_control_flow_inside_the_graph_comes_back(files_and_sink):
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    back = load(Branch(), torch.randn(3, 2), files_and_sink)
    for data in (torch.ones(4, 2), -torch.ones(4, 2)):
        assert torch.equal(back(data), Branch()(data))


def test_describing_counts_operators_without_running_them(files_and_sink):
    written, place = save(Norm(), torch.randn(3, 4), files_and_sink)
    described = TorchExport().describe(place.files(), written.entry)
    assert described["operators"] == {"aten.batch_norm.default": 1, "aten.dropout.default": 1, "aten.linear.default": 1}
    assert described["inputs"][0]["name"] == "x"
    assert described["outputs"] == [{"name": "output", "type": "float32", "shape": ["batch", 4]}]
    assert described["versions"]["torch"] == torch.__version__


def test_detection_goes_by_content(tmp_path, files_and_sink):
    _, place = save(Norm(), torch.randn(3, 4), files_and_sink)
    assert TorchExport().detect(files_at(place.files().path("program.json")))
    assert not TorchExport().detect(files_at(place.files().path("model.safetensors")))
    (tmp_path / "program.json").write_bytes(place.files().read("program.json"))
    assert TorchExport().detect(files_at(tmp_path))


@torch.library.custom_op("vitrify_test::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


def test_somebody_elses_operator_needs_permission_by_its_name(files_and_sink):
    written, place = save(Returns(double), torch.randn(3, 2), files_and_sink)
    name = "torch.ops.vitrify_test.double.default"
    assert written.names == (name,)
    with pytest.raises(UntrustedCodeError) as caught:
        TorchExport().read(place.files(), written.entry, Allow())
    assert caught.value.names == (name,)
    back = TorchExport().read(place.files(), written.entry, Allow.of([name]))
    assert torch.equal(back(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    assert TorchExport().describe(place.files(), written.entry)["foreign_operators"] == [name]


def test_weights_that_do_not_fit_the_program_are_malformed(files_and_sink):
    _, program = save(torch.nn.Linear(2, 2), torch.randn(2, 2), files_and_sink)
    _, weights = save(torch.nn.Conv1d(2, 2, 1, bias=False), torch.randn(2, 2, 1), files_and_sink)

    class Mixed:
        def __getattr__(self, name):
            return lambda file: getattr((program if file == "program.json" else weights).files(), name)(file)

        def names(self):
            return weights.files().names()

    with pytest.raises(MalformedError, match="cannot read this program"):
        read_program(Mixed(), {}, Allow())
