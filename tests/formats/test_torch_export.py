from __future__ import annotations

import collections
import copy
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vitrify import containers
from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError, UntrustedCodeError, UsageError
from vitrify.core.protocols import Allow
from vitrify.formats import _torch_program, _torch_trace
from vitrify.formats._torch_audit import audit
from vitrify.formats.torch_export import TorchExport, read_program


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
    assert described["weights"] == {"count": 1, "bytes": 176, "tied": 1}
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
    assert list(written.entry["outputs"]) == names
    assert set(map(tuple, written.entry["outputs"].values())) == {("batch", 2)}
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
    assert written.entry["outputs"] == {
        "mean": ["batch", 3],
        "twice": ["batch", "2*length", 3],
        "fixed": [1, 3],
    }
    back = TorchExport().read(place.files(), written.entry, Allow())
    assert back(torch.randn(4, 7, 3))["twice"].shape == (4, 14, 3)


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
    assert described["inputs"] == ["x"]
    assert described["outputs"] == {"output": ["batch", 4]}
    assert described["torch"] == torch.__version__


def test_detection_goes_by_content(tmp_path, files_and_sink):
    _, place = save(Norm(), torch.randn(3, 4), files_and_sink)
    assert TorchExport().detect(place.files().path("program.json"))
    assert not TorchExport().detect(place.files().path("model.safetensors"))
    (tmp_path / "program.json").write_bytes(place.files().read("program.json"))
    assert TorchExport().detect(tmp_path)


# The archives of torch.export.save.


def archive(model, files_and_sink, change=None):
    """Save a module as PyTorch does, perhaps with members changed."""
    place = files_and_sink()
    program = torch.export.export(model.eval(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with place.sink.path("model.pt2", "weight") as path:
        torch.export.save(program, path)
        if change:
            with zipfile.ZipFile(path) as old:
                members = {info.filename: old.read(info) for info in old.infolist()}
            change(members)
            with zipfile.ZipFile(path, "w") as new:
                for name, data in members.items():
                    new.writestr(name, data)
    return place.files()


def member(members, ending):
    return next(name for name in members if name.endswith(ending))


def test_an_archive_of_pytorch_is_read_without_unpickling(files_and_sink, monkeypatch):
    model = Norm()
    files = archive(model, files_and_sink)
    assert TorchExport().detect(files.path("model.pt2"))
    monkeypatch.setattr(torch, "load", None)
    back = TorchExport().read(files, {"file": "model.pt2"}, Allow())
    data = torch.randn(5, 4)
    assert torch.equal(back(data), model(data))
    described = TorchExport().describe(files, {"file": "model.pt2"})
    assert described["inputs"] == ["x"]
    assert described["weights"] == {"count": 7, "bytes": 152, "tied": 0}


def test_ties_in_an_archive_stay(files_and_sink):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    back = TorchExport().read(archive(model, files_and_sink), {"file": "model.pt2"}, Allow())
    assert back.get_parameter("0.weight") is back.get_parameter("1.weight")


def edit_config(edit):
    def change(members):
        name = member(members, "model_weights_config.json")
        config = json.loads(members[name])
        edit(config["config"]["linear.weight"])
        members[name] = json.dumps(config).encode()

    return change


BROKEN = {
    "a member that is absent": edit_config(lambda about: about.update(path_name="weight_99")),
    "a member elsewhere": edit_config(lambda about: about.update(path_name="../../models/model.json")),
    "a shape beyond the data": edit_config(lambda about: about["tensor_meta"].update(sizes=[{"as_int": 10**9}] * 2)),
    "an offset beyond the data": edit_config(lambda about: about["tensor_meta"]["storage_offset"].update(as_int=99)),
    "an unknown type": edit_config(lambda about: about["tensor_meta"].update(dtype=99)),
    "no graph": lambda members: members.pop(member(members, "models/model.json")),
    "two graphs": lambda members: members.update(
        {member(members, "models/model.json").replace("model.json", "b.json"): b""}
    ),
    "a configuration that is no JSON": lambda members: members.update({member(members, "weights_config.json"): b"{"}),
    "a graph that is no JSON": lambda members: members.update({member(members, "models/model.json"): b"{"}),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_broken_archive_is_malformed(change, files_and_sink):
    files = archive(Norm(), files_and_sink, change)
    with pytest.raises(MalformedError, match=r"model\.pt2"):
        TorchExport().read(files, {"file": "model.pt2"}, Allow())


def test_a_compressed_archive_is_malformed(files_and_sink):
    files = archive(Norm(), files_and_sink)
    other = files_and_sink()
    with (
        zipfile.ZipFile(files.path("model.pt2")) as old,
        other.sink.path("model.pt2", "weight") as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    assert not TorchExport().detect(path)
    with pytest.raises(MalformedError, match="compressed"):
        TorchExport().read(other.files(), {"file": "model.pt2"}, Allow())


def test_everything_pickled_in_an_archive_is_listed_and_never_opened(files_and_sink):
    def change(members):
        edit_config(lambda about: about.update(use_pickle=True))(members)
        members[member(members, "weights/weight_0").replace("weight_0", "model.pt")] = b"cos\nsystem\n(S'id'\ntR."

    files = archive(Norm(), files_and_sink, change)
    with pytest.raises(UnsupportedModelError, match="unpickling runs code") as caught:
        TorchExport().read(files, {"file": "model.pt2"}, Allow())
    assert len(caught.value.problems) == 2


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


# The program, as an enemy would write it.


@pytest.fixture(scope="module")
def program():
    model = torch.nn.Linear(2, 2).eval()
    traced = _torch_trace.trace(model, containers.example(torch.randn(2, 2)))
    return json.loads(_torch_program.dump(traced.program))


def graph_of(program):
    return program["graph_module"]["graph"]


def root(program):
    return program["graph_module"]["module_call_graph"][0]["signature"]


def set_target(text):
    return lambda p: graph_of(p)["nodes"][0].update(target=text)


def set_expression(text):
    return lambda p: graph_of(p)["tensor_values"]["input"]["sizes"][0]["as_expr"].update(expr_str=text)


def set_spec(text):
    return lambda p: root(p).update(in_spec=text)


def enum_context():
    leaf = {"type": None, "context": None, "children_spec": []}
    evil = json.dumps([{"__enum__": True, "fqn": "os:system", "name": "x"}])
    return json.dumps([1, {"type": "builtins.dict", "context": evil, "children_spec": [leaf]}])


ATTACKS = {
    "a call of os.system": set_target("torch.os.system"),
    "a call of a loader": set_target("torch.load"),
    "a library to open": set_target("torch.ops.load_library"),
    "an extension operator": set_target("#x:y"),
    "an attribute of an operator": set_target("torch.ops.aten.add.Tensor.__class__"),
    "a symbolic call too many": set_target("_operator.methodcaller"),
    "a target that is no text": set_target(["torch.ops.aten.add.Tensor"]),
    "code in an expression": set_expression("__import__('os').system('id')"),
    "an attribute in an expression": set_expression("Symbol.__class__"),
    "a lambda in an expression": set_expression("(lambda: 0)()"),
    "a format in an expression": set_expression("Symbol('s0'.__class__)"),
    "text that is no symbol": set_expression("Symbol('__import__(1)')"),
    "an endless power": set_expression("Pow(Integer(9), Pow(Integer(9), Integer(9999)))"),
    "a power by operator": set_expression("9**9**9**9"),
    "a power without exponent": set_expression("Pow()"),
    "a statement": set_expression("import os"),
    "a long expression": set_expression("1+" * 5000 + "1"),
    "code in an argument's name": lambda p: graph_of(p)["inputs"][0]["as_tensor"].update(name="x=__import__('os')"),
    "code in a node's name": lambda p: graph_of(p)["nodes"][0].update(name="a;b"),
    "code in the signature": lambda p: root(p).update(forward_arg_names=["x: __import__('os')"]),
    "code in a parameter's name": lambda p: p["graph_module"]["signature"]["input_specs"][0]["parameter"].update(
        parameter_name='a"); import os; ("'
    ),
    "an enum to import": set_spec(enum_context()),
    "a class in a specification": set_spec(
        '[1, {"type": "collections.defaultdict", "context": "null", "children_spec": []}]'
    ),
    "a specification of another version": set_spec('[2, {"type": null, "context": null, "children_spec": []}]'),
    "a specification that is no JSON": set_spec("("),
    "a named tuple": lambda p: p["graph_module"].update(treespec_namedtuple_fields={"os": {"fields": []}}),
    "a symbol that is code": lambda p: p["range_constraints"].update({"exec('1')": {"min_val": 0, "max_val": 1}}),
    "an object": lambda p: graph_of(p)["nodes"][0]["inputs"][0].update(arg={"as_custom_obj": {"name": "a"}}),
    "no graph": lambda p: p.pop("graph_module"),
    "no constraints": lambda p: p.pop("range_constraints"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_hostile_program_is_malformed_before_pytorch_sees_it(attack, program):
    hostile = copy.deepcopy(program)
    attack(hostile)
    with pytest.raises(MalformedError, match=r"evil\.json"):
        audit(json.dumps(hostile).encode(), where="evil.json")


@pytest.mark.parametrize("target", ["torch.ops.aten.from_file.default", "torch.ops.aten.save.default"])
def test_an_operator_that_touches_files_needs_permission(target, program):
    hostile = copy.deepcopy(program)
    set_target(target)(hostile)
    assert audit(json.dumps(hostile).encode(), where="x")[1] == {target}


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 200_000])
def test_what_is_no_program_is_malformed(text):
    with pytest.raises(MalformedError):
        audit(text, where="x")


def test_guards_and_metadata_of_a_file_are_never_used(program):
    noisy = copy.deepcopy(program)
    noisy["guards_code"] = ["__import__('os').system('id')"]
    graph_of(noisy)["nodes"][0]["metadata"] = {"stack_trace": "x", "nn_module_stack": "a,b,c"}
    assert audit(json.dumps(noisy).encode(), where="x")[0] == program


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


@given(st.data())
def test_a_program_with_any_text_replaced_is_read_or_refused_with_our_error(program, data):
    changed = copy.deepcopy(program)
    places = []

    def walk(value):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, str):
                places.append((value, key))
            elif isinstance(item, (dict, list)):
                walk(item)

    walk(changed)
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(st.text(max_size=20))
    weights = {"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}
    try:
        graph, foreign = audit(json.dumps(changed).encode(), where="x")
        assert not foreign
        loaded = _torch_program.load(graph, weights, where="x")
    except MalformedError:
        return
    assert isinstance(loaded, torch.export.ExportedProgram)
