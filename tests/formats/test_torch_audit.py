from __future__ import annotations

import copy
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vitrify import containers
from vitrify.core.errors import MalformedError
from vitrify.formats._torch import program as torch_program
from vitrify.formats._torch import trace
from vitrify.formats._torch.audit import audit


@pytest.fixture(scope="module")
def program():
    model = torch.nn.Linear(2, 2).eval()
    traced = trace.trace(model, containers.example(torch.randn(2, 2)))
    return json.loads(torch_program.dump(traced.program))


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
        loaded = torch_program.load(graph, weights, where="x")
    except MalformedError:
        return
    assert isinstance(loaded, torch.export.ExportedProgram)
