"""Functions that JAX exported: what is said about one is what JAX says when it reads it."""

import json
import subprocess
import sys

import flatbuffers
import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats.jax_export import JaxExport
from vitrify.reading.files import HeldFiles

FORMAT = JaxExport()
ENTRY = {"file": "model.jax"}
READ = """
import json, sys
from jax import export
one = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
avals = lambda listed: [[str(aval.dtype), [str(size) for size in aval.shape]] for aval in listed]
print(json.dumps({
    "name": one.fun_name, "platforms": one.platforms, "devices": one.nr_devices,
    "convention": one.calling_convention_version, "inputs": avals(one.in_avals), "outputs": avals(one.out_avals),
    "gradient": one.has_vjp(),
}))
"""


def held(content):
    return HeldFiles({"model.jax": memoryview(content)})


def made(name):
    return graph_files.written(graph_files.JAX)[name]


def ports(found):
    return [[one["type"], [str(size) for size in one["shape"]]] for one in found]


@pytest.mark.parametrize("name", ["exported", "structured", "gradient"])
def test_what_is_said_is_what_jax_reads(name, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(made(name))
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    found = FORMAT.describe(held(made(name)), ENTRY)
    assert FORMAT.detect(held(made(name)))
    assert (found["function"], found["platforms"], found["devices"]) == (
        theirs["name"],
        theirs["platforms"],
        theirs["devices"],
    )
    assert found["versions"]["calling_convention"] == theirs["convention"]
    assert (ports(found["inputs"]), ports(found["outputs"])) == (theirs["inputs"], theirs["outputs"])
    assert bool(found["gradients"]) == theirs["gradient"]
    assert list(FORMAT.hazards(held(made(name)), ENTRY)) == []


def test_the_structure_of_values_and_the_module_inside_are_told():
    found = FORMAT.describe(held(made("structured")), ENTRY)
    assert found["structure"] == "((*), {}) -> {a: [*], b: *}"
    assert found["operators"]["stablehlo.sine"] == 1
    assert FORMAT.describe(held(made("gradient")), ENTRY)["gradients"] == 2
    assert FORMAT.graph(held(made("structured")), ENTRY).nodes


def packed(module, *, kind=None):
    """Return an exported function around a module, with a tree of a class where one is named."""
    builder = flatbuffers.Builder(0)
    code, name = builder.CreateByteVector(module), builder.CreateString(kind or "f")
    tree = None
    if kind:
        builder.StartObject(5)
        builder.PrependInt8Slot(0, 5, 0)
        builder.PrependUOffsetTRelativeSlot(3, name, 0)
        tree = builder.EndObject()
    platform = builder.CreateString("cpu")
    builder.StartVector(4, 1, 4)
    builder.PrependUOffsetTRelative(platform)
    platforms = builder.EndVector()
    builder.StartObject(26)
    builder.PrependUint16Slot(0, 3, 0)
    builder.PrependUOffsetTRelativeSlot(1, name, 0)
    if tree:
        builder.PrependUOffsetTRelativeSlot(2, tree, 0)
    builder.PrependUOffsetTRelativeSlot(9, platforms, 0)
    builder.PrependUOffsetTRelativeSlot(13, code, 0)
    builder.PrependUint16Slot(14, 10, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


@pytest.mark.parametrize("name", ["callback", "callback-bytecode"])
def test_a_callback_in_the_module_is_found(name):
    content = packed(made(name))
    assert FORMAT.detect(held(content))
    (found,) = FORMAT.hazards(held(content), ENTRY)
    assert (found.rule, found.subject) == ("python-callback", "xla_ffi_python_cpu_callback")
    assert found.place == "model.jax: module"


def test_values_of_a_class_that_has_to_be_registered_are_found():
    content = packed(made("bytecode"), kind="acme.State")
    (found,) = FORMAT.hazards(held(content), ENTRY)
    assert (found.rule, found.subject) == ("custom-class", "acme.State")
    assert "the class acme.State, registered with JAX" in FORMAT.describe(held(content), ENTRY)["needs"]


@pytest.mark.parametrize("content", [b"", bytes(100), b"\x0c" + bytes(100), graph_files.program()])
def test_other_buffers_are_not_taken_for_it(content):
    assert not FORMAT.detect(held(content))


def test_a_module_that_is_malformed_is_refused():
    with pytest.raises(MalformedError, match="module"):
        list(FORMAT.hazards(held(packed(b"ML\xefRrest")), ENTRY))
    with pytest.raises(MalformedError):
        FORMAT.describe(held(made("exported")[:-3000]), ENTRY)
