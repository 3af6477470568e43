"""TorchScript: what a file says, what it draws, and which operators reach out of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import warnings
import zipfile

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import torch_files

from vitrify.core.errors import LimitExceededError, MalformedError, VitrifyError
from vitrify.formats._torch import script_code, script_operators
from vitrify.formats._torch.archive import SCALARS
from vitrify.formats.torch_file import TorchFile
from vitrify.formats.torchscript import TorchScript
from vitrify.inspection.scan import scan_files
from vitrify.reading.files import HeldFiles

FORMAT = TorchScript()
ENTRY = {"file": "model.pt"}


def held(data):
    return HeldFiles({"model.pt": memoryview(data)})


def silero():
    return torch_files.of_package("silero_vad", "data", "silero_vad.jit")


def rezipped(**changes):
    """Change members of a scripted module; their names with underscores for dots, two for slashes."""
    with zipfile.ZipFile(io.BytesIO(torch_files.scripted())) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(content)).partition("/")[0]
    for name, part in changes.items():
        content[f"{root}/{name.replace('__', '/').replace('_', '.')}"] = part
    return torch_files.zipped(content)


def with_line(line):
    return rezipped(code__a_py=f"def f(x: Tensor) -> Tensor:\n  {line}\n  return x\n".encode())


@pytest.mark.filterwarnings("ignore:.*torch.jit.load.*:DeprecationWarning")
def test_what_a_file_says_is_what_pytorch_reads_from_it():
    described = FORMAT.describe(held(silero()), ENTRY)
    theirs = torch.jit.load(io.BytesIO(silero()))
    tensors = {**dict(theirs.named_parameters()), **dict(theirs.named_buffers())}
    listed = {one["name"]: one["shape"] for one in described["tensors"]}
    assert {name: list(tensor.shape) for name, tensor in tensors.items()}.items() <= listed.items()
    assert [(port["name"], port["type"]) for port in described["inputs"]] == [("x", "Tensor"), ("sr", "int")]
    assert described["outputs"][0]["type"] == "Tensor"
    assert described["class"] == "vad.model.vad_annotator.VADRNNJITMerge"
    main = next(one for one in described["classes_of_code"] if one["name"] == described["class"])
    assert main["attributes"]["_model_8k"] == "vad.model.vad_annotator.VADRNNJIT"
    assert main["methods"]["_validate_input"] == "(x: Tensor, sr: int) -> Tuple[Tensor, int]"
    assert described["operators"]["aten::lstm_cell"] == 2
    assert described["code"] is False
    assert json.loads(json.dumps(described)) == described


def test_it_is_not_taken_for_a_checkpoint():
    for data in (silero(), torch_files.scripted()):
        assert FORMAT.detect(held(data))
        assert not TorchFile().detect(held(data))
    assert not FORMAT.detect(held(torch_files.saved("checkpoint")))


def test_forward_is_drawn_with_modules_folded():
    for data in (torch_files.scripted(), torch_files.scripted(traced=True)):
        graph = FORMAT.graph(held(data), ENTRY)
        assert graph.inputs == ("input",)
        assert [node.operator for node in graph.nodes] == ["Linear", "BatchNorm1d", "ReLU", "Linear"]
        assert [node.name for node in graph.nodes] == ["0", "1", "2", "3"]
        for before, after in zip(graph.nodes, graph.nodes[1:], strict=False):
            assert before.outputs[0] in after.inputs
        assert graph.outputs == graph.nodes[-1].outputs
        inner = graph.nodes[0].graphs["forward"]
        assert [node.operator for node in inner.nodes] == ["linear"]
        assert inner.nodes[0].inputs[1:] == ("self.weight", "self.bias")
        assert inner.tensors["self.weight"].weight


def test_branches_and_loops_are_nodes_with_graphs():
    class Branches(torch.nn.Module):
        def forward(self, x, n: int):
            y = x
            for _ in range(n):
                y = y + x if n > 2 else y.relu()
            return y, x

    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Branches()), stream)
    graph = FORMAT.graph(held(stream.getvalue()), ENTRY)
    loop = next(node for node in graph.nodes if node.operator == "For")
    branch = next(node for node in loop.graphs["body"].nodes if node.operator == "If")
    assert [node.operator for node in branch.graphs["then"].nodes] == ["add"]
    assert [node.operator for node in branch.graphs["else"].nodes] == ["relu"]
    assert set(branch.outputs) & set(loop.outputs)


def test_honest_files_are_clean():
    for data in (silero(), torch_files.scripted(), torch_files.scripted(traced=True)):
        assert scan_files(held(data)).verdict != "found"
        assert list(FORMAT.hazards(held(data), ENTRY)) == []


REACHING = {
    "reads a file": ('y = torch.from_file("/etc/passwd", False, 10)', "aten::from_file"),
    "writes a file": ('torch.save(x, "/tmp/a")', "aten::save"),
    "writes a file, spaced out": ('torch . \\\n    save(x, "/tmp/a")', "aten::save"),
    "writes a file through its namespace": ('ops.aten.save(x, "/tmp/a")', "aten::save"),
    "an operator as a value": ("f = torch.save", "aten::save"),
    "a module as a value": ("t = torch", "torch::"),
    "a namespace as a value": ("t = ops.aten", "ops::"),
    "an operator of a library": ("y = ops.torchvision.nms(x, x, 0.5)", "torchvision::nms"),
    "calls Python": ("y = ops.prim.PythonOp(x)", "prim::PythonOp"),
    "calls another machine": ('y = rpc_async("host", f, (x,))', "prim::rpc_async"),
    "a class of a library": ("y = __torch__.torch.classes.acme.Runner.__new__(x)", "classes.acme::Runner"),
}


@pytest.mark.parametrize(("line", "subject"), REACHING.values(), ids=REACHING)
def test_an_operator_that_reaches_out_is_found(line, subject):
    found = {one.subject for one in FORMAT.hazards(held(with_line(line)), ENTRY)}
    assert found == {subject}


@pytest.mark.parametrize(
    "line",
    [
        'y = "torch.save(x)"',
        "y = x  # torch.save",
        "y = x.save",
        "y = __torch__.torch.nn.functional.relu(x)",
        "y = __torch__ . torch . nn.functional.relu(x)",
        "y = ops.quantized.linear(x)",
        "y = __torch__.torch.classes.quantized.LinearPackedParamsBase.__new__(x)",
        r"y = 'it\'s torch.save' ",
    ],
)
def test_what_only_looks_like_one_is_not(line):
    assert list(FORMAT.hazards(held(with_line(line)), ENTRY)) == []


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("member", ["data_pkl", "constants_pkl", "code__a_py_debug_pkl", "extra__notes_txt"])
def test_a_payload_in_any_member_is_found_and_does_not_run(member, tmp_path):
    name = member if member != "code__a_py_debug_pkl" else "code__a_pkl"
    data = rezipped(**{name: pickle.dumps(Payload(tmp_path / "marker"), 2)})
    assert scan_files(held(data)).verdict == "found"
    assert not (tmp_path / "marker").exists()


def test_a_class_of_native_code_in_the_objects_is_found():
    data = rezipped(data_pkl=b"\x80\x02c__torch__.torch.classes.acme\nRunner\n)\x81.")
    assert {one.subject for one in FORMAT.hazards(held(data), ENTRY)} == {"classes.acme::Runner"}


def test_a_tensor_beyond_its_storage_is_malformed():
    with pytest.raises(MalformedError, match="bytes"):
        FORMAT.describe(held(rezipped(data__0=b"")), ENTRY)


def test_code_that_is_no_code_is_malformed_and_code_without_an_end_a_limit():
    with pytest.raises(MalformedError, match="bracket"):
        FORMAT.describe(held(rezipped(code__a_py=b"def f(x")), ENTRY)
    with pytest.raises(MalformedError, match="no text"):
        FORMAT.describe(held(rezipped(code__a_py=b"\xff\xfe")), ENTRY)
    with pytest.raises(LimitExceededError):
        script_code.parse("x" * (script_code.MAX_CODE + 1), "a", where="a")
    with pytest.raises(LimitExceededError):
        script_code.parse(f"y = [{'1, ' * 100_000}]", "a", where="a")


def deep(calls):
    body = "".join(f"class C{n}(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return x\n" for n in range(3))
    return f"{body}class Deep(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return {calls}\n"


@pytest.mark.parametrize("code", ["(" * 5000 + "x" + ")" * 5000, "torch.f(" * 5000 + "x" + ")" * 5000])
def test_nesting_without_an_end_is_a_limit(code):
    classes, functions = script_code.parse(deep(code), "__torch__", where="a")
    from vitrify.formats._torch.script_graph import Drawing

    with pytest.raises(LimitExceededError, match="nested"):
        Drawing(classes, functions, where="a").graph("__torch__.Deep")


def test_methods_that_fold_into_each_other_do_not_grow_without_an_end():
    levels = "".join(
        f"def f{n}(x: Tensor) -> Tensor:\n  y = __torch__.f{n - 1}(x)\n  return __torch__.f{n - 1}(y)\n"
        for n in range(1, 40)
    )
    code = f"def f0(x: Tensor) -> Tensor:\n  return __torch__.f0(x)\n{levels}"
    code += "class M(Module):\n  def forward(self, x: Tensor) -> Tensor:\n    return __torch__.f39(x)\n"
    classes, functions = script_code.parse(code, "__torch__", where="a")
    from vitrify.formats._torch.script_graph import Drawing

    graph, count = Drawing(classes, functions, where="a"), 0
    waiting = [graph.graph("__torch__.M")]
    while waiting:
        one = waiting.pop()
        count += len(one.nodes)
        waiting += [inner for node in one.nodes for inner in node.graphs.values()]
        assert count < 50_000


def test_the_schema_of_this_pytorch_numbers_its_types_as_we_do():
    from torch._export.serde import schema, serialize

    for one in schema.ScalarType:
        if one.value:
            assert str(serialize.deserialize_scalar_type(one)) == f"torch.{SCALARS[one.value]}"


@given(code=st.text(st.sampled_from("torchops.ave(), \n\"'#\\=:_def[]{}x ")))
def test_any_text_is_read_or_refused(code):
    list(script_operators.operators(code))
    with contextlib.suppress(VitrifyError):
        script_code.parse(code, "a", where="a")


@given(data=st.data(), sample=st.sampled_from(["scripted", "traced", "silero"]))
def test_damage_gives_typed_errors_only(data, sample):
    makers = {"silero": silero, "traced": lambda: torch_files.scripted(traced=True)}
    made = bytearray(makers.get(sample, torch_files.scripted)())
    for _ in range(data.draw(st.integers(1, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    files = held(bytes(made))
    FORMAT.detect(files)
    for ask in (FORMAT.describe, FORMAT.graph, lambda *args: list(FORMAT.hazards(*args))):
        with contextlib.suppress(VitrifyError):
            ask(files, ENTRY)
