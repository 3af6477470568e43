"""StableHLO: bytecode, old and new, and text in both forms say the same; whatever calls out is found in each."""

import subprocess
import sys
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import graph_files

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats._stablehlo import text
from vitrify.formats._stablehlo.bytecode import read as read_bytecode
from vitrify.formats._stablehlo.module import is_custom_call
from vitrify.formats.stablehlo import StableHlo
from vitrify.reading.files import HeldFiles

FORMAT = StableHlo()
ENTRY = {"file": "model.mlir"}
FORMS = ["bytecode", "old", "plain", "text", "generic"]

SCRIPT = """
import sys
from jaxlib.mlir.dialects import stablehlo
types = sys.argv[2].split()
body = "".join(
    f"func.func @f{place}(%a: tensor<2x{one}>) -> tensor<2x{one}> {{ return %a : tensor<2x{one}> }}\\n"
    for place, one in enumerate(types)
)
version = stablehlo.get_current_version()
open(sys.argv[1], "wb").write(stablehlo.serialize_portable_artifact_str(body, version))
"""
TYPES = (
    "i1 i2 i4 i8 i16 i32 i64 ui2 ui4 ui8 ui16 ui32 ui64 f4E2M1FN f6E2M3FN f6E3M2FN f8E3M4 f8E4M3 f8E4M3FN f8E4M3FNUZ "
    "f8E4M3B11FNUZ f8E5M2 f8E5M2FNUZ f8E8M0FNU bf16 f16 f32 f64 tf32 complex<f32>"
)


def held(content):
    return HeldFiles({"model.mlir": memoryview(content)})


def made(name):
    return graph_files.written(graph_files.JAX)[name]


def rules(content):
    data = content if isinstance(content, bytes) else content.encode()
    return {(one.rule, one.subject): one.verdict for one in FORMAT.hazards(held(data), ENTRY)}


def shapes(ports):
    return [(one["type"], one["shape"]) for one in ports]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_says_the_same(name):
    found = FORMAT.describe(held(made(name)), ENTRY)
    assert FORMAT.detect(held(made(name)))
    assert shapes(found["inputs"]) == [("float32", [None, 4]), ("float32", [4, 3])]
    assert shapes(found["outputs"]) == [("float32", [None, 3]), ("float32", [])]
    assert found["module"] == "jit_f"
    assert found["custom_calls"] == {"shape_assertion": 1}
    # In its own form, a reduction's body is one word: it has no return of its own.
    expected = Counter(FORMAT.describe(held(made("generic")), ENTRY)["operators"])
    expected["stablehlo.return"] -= name == "text"
    assert Counter(found["operators"]) == expected
    assert rules(made(name)) == {}


def test_the_version_is_that_of_the_portable_form():
    assert FORMAT.describe(held(made("old")), ENTRY)["producer"].startswith("StableHLO_v")
    assert FORMAT.describe(held(made("bytecode")), ENTRY)["versions"]["stablehlo"].count(".") == 2
    assert FORMAT.describe(held(made("plain")), ENTRY)["versions"] == {}


@pytest.mark.parametrize("name", FORMS)
def test_the_graph_has_the_called_function_and_its_loop_inside(name):
    drawn = FORMAT.graph(held(made(name)), ENTRY)
    (call,) = (node for node in drawn.nodes if node.operator == "func.call")
    (inner,) = call.graphs.values()
    (loop,) = (node for node in inner.nodes if node.operator == "stablehlo.while")
    assert len(loop.graphs) == 2
    assert [len(graph.nodes) for graph in loop.graphs.values()] == [1, 2]
    # In the text's own form a loop's values are named before its regions, which have no arguments of their own.
    for graph in (drawn, inner):
        used = {name.partition("#")[0] for node in graph.nodes for name in node.inputs}
        assert used <= {name.partition("#")[0] for name in graph.tensors}


def test_every_element_type_is_known(tmp_path):
    path = tmp_path / "types"
    done = subprocess.run([sys.executable, "-c", SCRIPT, path, TYPES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    module = read_bytecode(memoryview(path.read_bytes()), where="test")
    assert [one.body.arguments[0].type.name for one in module.functions] == TYPES.split()
    assert {one.outputs[0].shape for one in module.functions} == {(2,)}


@pytest.mark.parametrize("name", ["callback", "callback-bytecode"])
def test_python_callbacks_are_found(name):
    assert rules(made(name)) == {("python-callback", "xla_ffi_python_cpu_callback"): "found"}


CALL = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {{\n  {}\n  return %0 : tensor<4xf32>\n}}"
TYPE = "(tensor<4xf32>) -> tensor<4xf32>"


@pytest.mark.parametrize(
    "line",
    [
        "%0 = stablehlo.custom_call @evil(%a) : " + TYPE,
        "%0 = stablehlo.custom_call @evil(%a) {api_version = 4 : i32} : " + TYPE,
        '%0 = stablehlo.custom_call @"evil"(%a) : ' + TYPE,
        r'%0 = stablehlo.custom_call @"\65vil"(%a) : ' + TYPE,
        "%0 =\n stablehlo.custom_call // @Sharding\n @evil(%a) : " + TYPE,
        '%0 = "stablehlo.custom_call"(%a) {call_target_name = "evil"} : ' + TYPE,
        '%0 = "stablehlo.custom_call"(%a) <{call_target_name = "evil", has_side_effect = false}> : ' + TYPE,
        r'%0 = "stablehlo.custom\5fcall"(%a) <{call_target_name = "\65vil"}> : ' + TYPE,
        '%0 = "vhlo.custom_call_v1"(%a) <{call_target_name = #vhlo.string_v1<"evil">}> : ' + TYPE,
        "%0 = mhlo.custom_call @evil(%a) : " + TYPE,
        "%0, %1 = stablehlo.custom_call @evil(%a) : " + TYPE,
        "%0:2 = stablehlo.custom_call @evil(%a) : " + TYPE,
        '%c = "x.y"(%a) {n = "}"} : () -> () "}" %0 = stablehlo.custom_call @evil(%a) : ' + TYPE,
        '%b = "x.y"(%a) ({ %0 = stablehlo.custom_call @evil(%a) : ' + TYPE + " }) : () -> ()",
    ],
)
def test_a_custom_call_is_found_however_it_is_written(line):
    assert rules(CALL.format(line)).get(("custom-call", "evil")) == "found"


@pytest.mark.parametrize(
    "line",
    [
        '%0 = stablehlo.custom_call @Sharding(%a) {call_target_name = "evil"} : ' + TYPE,
        '%0 = "stablehlo.custom_call"(%a) {call_target_name = "Sharding", call_target_name = "evil"} : ' + TYPE,
        '%0 = "stablehlo.custom_call"(%a) : ' + TYPE,
        "%0 = stablehlo.add %a, {x = [stablehlo.custom_call @evil(%a)]} : " + TYPE,
    ],
)
def test_a_custom_call_without_one_target_is_never_clean(line):
    assert rules(CALL.format(line))


def test_words_in_strings_and_comments_are_no_calls():
    line = (
        '%0 = stablehlo.add %a, %a {note = "stablehlo.custom_call @evil"} : tensor<4xf32> // stablehlo.custom_call @e'
    )
    assert rules(CALL.format(line)) == {}


def test_operations_of_other_dialects_are_not_called_clean():
    found = rules(CALL.format('%0 = "llvm.call"(%a) {callee = @system} : ' + TYPE))
    assert found == {("unknown-dialect", "llvm"): "not checked"}


@pytest.mark.parametrize(
    ("start", "is_module"),
    [
        ("module {\n func.func @f() { return } }", True),
        ("// made by hand\n#loc = loc(unknown)\nmodule @a attributes {x = 1} {\n func.func @f() {return} }", True),
        ('"builtin.module"() ({ "func.func"() ({}) : () -> () }) : () -> ()', True),
        ("func.func @main() { return }", True),
        ("module Foo {\n export *\n}", False),
        ('module "x" {\n source = "y" }', False),
        ("module counter(input clk);", False),
        ("import numpy", False),
        ("", False),
    ],
)
def test_text_is_known_by_its_first_operation(start, is_module):
    assert FORMAT.detect(held(start.encode())) == is_module


def test_regions_nest_only_so_deep():
    with pytest.raises(LimitExceededError, match="deeper"):
        FORMAT.describe(held(b"module { " * 100), ENTRY)


@pytest.mark.parametrize("content", [b"", b"nothing here", b"module {"])
def test_what_is_no_module_is_refused(content):
    with pytest.raises(MalformedError):
        FORMAT.describe(held(content), ENTRY)


WORDS = [*"(){}<>=,:\n", "module", "func.func", "@f", '"a.b"(', "%0", "%1:2", "^bb0", "->", "tensor<", "x", "//"]


@given(st.lists(st.sampled_from(WORDS)))
def test_no_words_raise_anything_else(words):
    with suppress(MalformedError):
        text.read(memoryview(" ".join(words).encode()), where="test")


def test_calls_are_known_in_every_version_of_the_operation():
    assert all(map(is_custom_call, ("stablehlo.custom_call", "vhlo.custom_call_v1", "vhlo.custom_call_v9")))
