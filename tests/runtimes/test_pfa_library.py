"""The library of PFA: what the specification says of each function, with its error codes."""

from __future__ import annotations

import contextlib
import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrify.core.errors import VitrifyError
from vitrify.runtimes._pfa.engine import Engine
from vitrify.runtimes._pfa.library import LIBRARY
from vitrify.runtimes._pfa.types import PfaError

D, N, S, B = "double", "int", "string", "boolean"
NAN = {"/": [0, 0]}
INF = {"/": [1, 0]}


def array(item):
    return {"type": "array", "items": item}


def values(item):
    return {"type": "map", "values": item}


def lit(type_, value):
    return {"type": type_, "value": value}


def ds(*numbers):
    return lit(array(D), list(numbers))


def ints(*numbers):
    return lit(array(N), list(numbers))


def text(value):
    return {"string": value}


def fcn(params, result, body):
    return {"params": params, "ret": result, "do": body}


def run(action, gives):
    return Engine({"input": "null", "output": gives, "action": action}, steps=200_000).run(None)


LESS = fcn([{"x": N}, {"y": N}], B, {"<": ["x", "y"]})
DOUBLE = fcn([{"x": N}], N, {"*": ["x", 2]})
ADD = fcn([{"x": N}, {"y": N}], N, {"+": ["x", "y"]})
ODD = fcn([{"x": N}], B, {"==": [{"%": ["x", 2]}, 1]})
MATRIX = lit(array(array(D)), [[1, 2], [3, 4]])

CASES = [
    ({"%": [-7, 3]}, N, 2),
    ({"%%": [-7, 3]}, N, -1),
    ({"//": [-7, 2]}, N, -4),
    ({"**": [2, 10]}, N, 1024),
    ({"**": [2.0, 0.5]}, D, 2**0.5),
    ({"**": [-1.0, 0.5]}, D, math.nan),
    ({"cmp": [text("a"), text("b")]}, N, -1),
    ({"max": [3, 4.5]}, D, 4.5),
    ({"^": [5, 1]}, N, 4),
    ({"~": [0]}, N, -1),
    ({"==": [NAN, NAN]}, B, False),
    ({"==": [ints(1, 2), ints(1, 2)]}, B, True),
    ({"<": [ints(1, 2), ints(1, 3)]}, B, True),
    ({"m.abs": -3}, N, 3),
    ({"m.ln": 0}, D, -math.inf),
    ({"m.ln": -1}, D, math.nan),
    ({"m.exp": 1000}, D, math.inf),
    ({"m.exp": [{"/": [-1, 0]}]}, D, 0.0),
    ({"m.sqrt": -1}, D, math.nan),
    ({"m.floor": INF}, D, math.inf),
    ({"m.ceil": -0.5}, D, -0.0),
    ({"m.rint": 2.5}, D, 2.0),
    ({"m.round": 2.5}, "long", 3),
    ({"m.round": -2.5}, "long", -2),
    ({"m.signum": -2.0}, N, -1),
    ({"m.log": [8, 2]}, D, 3.0),
    ({"m.special.nChooseK": [20, 10]}, N, 184756),
    ({"m.link.softmax": ds(1000, 1000)}, array(D), [0.5, 0.5]),
    ({"m.link.logit": 0.0}, D, 0.5),
    ({"m.link.relu": ds(-1, 2)}, array(D), [0, 2]),
    ({"m.kernel.rbf": [ds(0, 0), ds(1, 1), 0.5]}, D, math.exp(-1)),
    ({"cast.int": 2.5}, N, 3),
    ({"cast.long": -2.5}, "long", -2),
    ({"cast.float": 0.1}, "float", float(np.float32(0.1))),
    ({"cast.signed": [255, 8]}, "long", -1),
    ({"cast.unsigned": [-1, 8]}, "long", 255),
    ({"cast.fanoutInt": [text("b"), lit(array(S), ["a", "b"]), True]}, array(N), [0, 1, 0]),
    ({"cast.fanoutBoolean": [7, 1, 4, True]}, array(B), [False, False, False, True]),
    ({"impute.isnan": NAN}, B, True),
    ({"impute.defaultOnNonNum": [NAN, 3.0]}, D, 3.0),
    ({"impute.defaultOnNull": [{"try": {"error": "x"}}, 4]}, N, 4),
    ({"parse.int": [text("ff"), 16]}, N, 255),
    ({"parse.double": [text("1.5")]}, D, 1.5),
    ({"s.substr": [text("hello"), 1, -1]}, S, "ell"),
    ({"s.substrto": [text("hello"), 1, 3, text("X")]}, S, "hXlo"),
    ({"s.index": [text("hello"), text("l")]}, N, 2),
    ({"s.rindex": [text("hello"), text("l")]}, N, 3),
    ({"s.join": [lit(array(S), ["a", "b"]), text("-")]}, S, "a-b"),
    ({"s.split": [text("a-b"), text("-")]}, array(S), ["a", "b"]),
    ({"s.replacelast": [text("aXbX"), text("X"), text("Y")]}, S, "aXbY"),
    ({"s.translate": [text("hello"), text("lo"), text("01")]}, S, "he001"),
    ({"s.int": [5, 4, True]}, S, "0005"),
    ({"s.hex": [255]}, S, "ff"),
    ({"a.subseq": [ints(1, 2, 3, 4), 1, -1]}, array(N), [2, 3]),
    ({"a.insert": [ints(1, 2), 1, 9]}, array(N), [1, 9, 2]),
    ({"a.remove": [ints(1, 2, 3), 0]}, array(N), [2, 3]),
    ({"a.rotate": [ints(1, 2, 3), 1]}, array(N), [2, 3, 1]),
    ({"a.cycle": [ints(1, 2), 3, 2]}, array(N), [2, 3]),
    ({"a.index": [ints(1, 2, 1, 2), ints(2, 1)]}, N, 1),
    ({"a.rindex": [ints(1, 2, 1), 1]}, N, 2),
    ({"a.count": [ints(1, 2, 3), ODD]}, N, 2),
    ({"a.startswith": [ints(1, 2), ints(1)]}, B, True),
    ({"a.endswith": [ints(1, 2), ints(1, 2)]}, B, True),
    ({"a.sort": ints(3, 1, 2)}, array(N), [1, 2, 3]),
    ({"a.sortLT": [ints(3, 1, 2), LESS]}, array(N), [1, 2, 3]),
    ({"a.argmax": ints(1, 3, 3)}, N, 1),
    ({"a.argmaxN": [ints(1, 3, 3, 2), 3]}, array(N), [1, 2, 3]),
    ({"a.minNLT": [ints(3, 1, 2), 2, LESS]}, array(N), [1, 2]),
    ({"a.sum": ints()}, N, 0),
    ({"a.product": ds(2, 3)}, D, 6.0),
    ({"a.mean": ds(1, 2)}, D, 1.5),
    ({"a.median": ds(4, 1, 3, 2)}, D, 2.5),
    ({"a.median": ints(4, 1, 3, 2)}, N, 2),
    ({"a.ntile": [ds(1, 2, 3), 1]}, D, 3),
    ({"a.mode": ints(1, 2, 2)}, N, 2),
    ({"a.logsumexp": ds(1000, 1000)}, D, 1000 + math.log(2)),
    ({"a.distinct": ints(1, 2, 1)}, array(N), [1, 2]),
    ({"a.union": [ints(1, 2), ints(2, 3)]}, array(N), [1, 2, 3]),
    ({"a.symdiff": [ints(1, 2), ints(2, 3)]}, array(N), [1, 3]),
    ({"a.subset": [ints(1), ints(2, 1)]}, B, True),
    ({"a.map": [ints(1, 2), DOUBLE]}, array(N), [2, 4]),
    ({"a.map": [ds(0, 1), {"fcn": "m.exp"}]}, array(D), [1.0, math.e]),
    ({"a.map": [ints(0), {"fcn": "m.exp"}]}, array(D), [1.0]),
    ({"a.filter": [ints(1, 2, 3), ODD]}, array(N), [1, 3]),
    ({"a.zipmap": [ints(1, 2), ints(3, 4), {"fcn": "+"}]}, array(N), [4, 6]),
    ({"a.mapWithIndex": [ints(5, 6), ADD]}, array(N), [5, 7]),
    ({"a.reduce": [ints(1, 2, 3), ADD]}, N, 6),
    ({"a.fold": [ints(1, 2), 10, ADD]}, N, 13),
    ({"a.foldRight": [ints(1, 2), 10, {"fcn": "-"}]}, N, 9),
    ({"a.takeWhile": [ints(1, 2, 3), ODD]}, array(N), [1]),
    ({"a.slidingWindow": [ints(1, 2, 3, 4), 2, 2]}, array(array(N)), [[1, 2], [3, 4]]),
    ({"a.combinations": [ints(1, 2, 3), 2]}, array(array(N)), [[1, 2], [1, 3], [2, 3]]),
    ({"a.flatten": lit(array(array(N)), [[1], [2, 3]])}, array(N), [1, 2, 3]),
    ({"map.keys": lit(values(N), {"a": 1})}, array(S), ["a"]),
    ({"map.add": [lit(values(N), {"a": 1}), text("b"), 2]}, values(N), {"a": 1, "b": 2}),
    ({"map.only": [lit(values(N), {"a": 1, "b": 2}), lit(array(S), ["b"])]}, values(N), {"b": 2}),
    ({"map.argmax": lit(values(N), {"a": 1, "b": 2})}, S, "b"),
    ({"map.in": [{"map.toset": ints(1, 2)}, 2]}, B, True),
    ({"map.map": [lit(values(N), {"a": 1}), DOUBLE]}, values(N), {"a": 2}),
    ({"map.containsKey": [lit(values(N), {"a": 1}), text("b")]}, B, False),
    ({"la.dot": [MATRIX, ds(1, 1)]}, array(D), [3, 7]),
    ({"la.dot": [MATRIX, MATRIX]}, array(array(D)), [[7, 10], [15, 22]]),
    ({"la.transpose": MATRIX}, array(array(D)), [[1, 3], [2, 4]]),
    ({"la.add": [ds(1, 2), ds(3, 4)]}, array(D), [4, 6]),
    ({"la.scale": [MATRIX, 2]}, array(array(D)), [[2, 4], [6, 8]]),
    ({"la.trace": MATRIX}, D, 5),
    ({"metric.simpleEuclidean": [ds(0, 0), ds(3, 4)]}, D, 5),
    ({"metric.euclidean": [{"fcn": "metric.absDiff"}, ds(0, 0), ds(3, 4)]}, D, 5),
    ({"metric.taxicab": [{"fcn": "metric.absDiff"}, ds(0, 0), ds(3, 4)]}, D, 7),
    ({"metric.minkowski": [{"fcn": "metric.absDiff"}, ds(0, 0), ds(3, 4), 2]}, D, 5),
    ({"metric.jaccard": [lit(array(B), [True, False]), lit(array(B), [True, True])]}, D, 0.5),
    ({"interp.bin": [0.3, 4, 0.0, 1.0]}, N, 1),
    ({"interp.bin": [-0.5, 0.0, 1.0]}, N, -1),
    ({"prob.dist.gaussianLL": [0, 0, 1]}, D, -0.5 * math.log(2 * math.pi)),
    ({"prob.dist.gaussianCDF": [0, 0, 1]}, D, 0.5),
    ({"model.neighbor.nearestK": [1, ds(0), lit(array(array(D)), [[5], [1]])]}, array(array(D)), [[1]]),
    ({"model.neighbor.mean": MATRIX}, array(D), [2, 3]),
]


@pytest.mark.parametrize(("action", "gives", "expected"), CASES, ids=[next(iter(case[0])) for case in CASES])
def test_a_function_gives_what_the_specification_says(action, gives, expected):
    found = run(action, gives)
    if isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-15, nan_ok=True)
        assert math.copysign(1, found) == math.copysign(1, expected) or math.isnan(expected)
    else:
        assert found == expected
        assert type(found) is type(expected) or isinstance(expected, int)


@pytest.mark.parametrize(
    ("action", "gives", "code"),
    [
        ({"u-": [{"-": [-2147483647, 1]}]}, N, 18050),
        ({"%": [1, 0]}, N, 18060),
        ({"**": [10, 10]}, N, 18080),
        ({"m.round": [{"cast.float": 1e30}]}, N, 27190),
        ({"m.round": 1e30}, "long", 27191),
        ({"m.log": [1, 0]}, D, 27170),
        ({"m.link.softmax": ds()}, array(D), 25000),
        ({"cast.int": 1e10}, N, 17020),
        ({"cast.long": NAN}, "long", 17030),
        ({"impute.errorOnNonNum": NAN}, D, 21050),
        ({"parse.double": text("x")}, D, 33030),
        ({"a.head": ints()}, N, 15020),
        ({"a.insert": [ints(1), 5, 1]}, array(N), 15160),
        ({"a.max": ints()}, N, 15240),
        ({"a.argmaxN": [ints(1), -1]}, array(N), 15361),
        ({"a.sum": ints(2147483647, 1)}, N, 15400),
        ({"a.zipmap": [ints(1), ints(1, 2), {"fcn": "+"}]}, array(N), 15650),
        ({"a.reduce": [ints(), ADD]}, N, 15670),
        ({"a.slidingWindow": [ints(1), 0, 1]}, array(array(N)), 15770),
        ({"map.argmin": lit(values(N), {})}, S, 26130),
        ({"la.dot": [MATRIX, ds(1)]}, array(D), 24050),
        ({"la.dot": [MATRIX, {"new": [1, INF], "type": array(D)}]}, array(D), 24052),
        ({"metric.simpleEuclidean": [ds(1), ds()]}, D, 28000),
        ({"interp.bin": [2, 4, 0, 1]}, N, 22001),
    ],
)
def test_what_a_function_cannot_do_has_its_code(action, gives, code):
    with pytest.raises(PfaError) as caught:
        run(action, gives)
    assert caught.value.code == code


def record(name, /, **fields):
    return {"type": "record", "name": name, "fields": [{"name": key, "type": one} for key, one in fields.items()]}


def test_regressions_networks_clusters_and_support_vectors_score():
    line = lit(record("L", coeff=array(D), const=D), {"coeff": [1, 2], "const": 3})
    assert run({"model.reg.linear": [ds(4, 5), line]}, D) == 17
    plane = lit(record("P", coeff=array(array(D)), const=array(D)), {"coeff": [[1, 2], [0, 1]], "const": [3, 0]})
    assert run({"model.reg.linear": [ds(4, 5), plane]}, array(D)) == [17, 5]
    layer = record("N", weights=array(array(D)), bias=array(D))
    net = lit(array(layer), [{"weights": [[1, 1]], "bias": [-3]}, {"weights": [[2]], "bias": [1]}])
    action = {"model.neural.simpleLayers": [ds(1, 1), net, fcn([{"x": D}], D, {"max": ["x", 0]})]}
    assert run(action, array(D)) == [1]
    centers = lit(array(record("C", center=array(D), id=N)), [{"center": [0], "id": 1}, {"center": [9], "id": 2}])
    assert run({"attr": {"model.cluster.closest": [ds(8), centers]}, "path": [["id"]]}, N) == 2
    vector = record("V", supVec=array(D), coeff=D)
    svm = record("M", const=D, posClass=array(vector), negClass=array("V"))
    model = lit(
        svm, {"const": 1, "posClass": [{"supVec": [2], "coeff": 3}], "negClass": [{"supVec": [1], "coeff": -1}]}
    )
    kernel = fcn([{"x": array(D)}, {"y": array(D)}], D, {"m.kernel.linear": ["x", "y"]})
    assert run({"model.svm.score": [ds(1), model, kernel]}, D) == 6


def test_naive_bayes_and_interpolation_score():
    parts = lit(array(record("G", mean=D, variance=D)), [{"mean": 0, "variance": 1}])
    assert run({"model.naive.gaussian": [ds(0), parts]}, D) == pytest.approx(-0.5 * math.log(2 * math.pi))
    table = lit(array(record("T", x=D, to=D)), [{"x": 0, "to": 0}, {"x": 1, "to": 10}])
    assert run({"interp.linear": [0.25, table]}, D) == 2.5
    assert run({"interp.linearFlat": [7, table]}, D) == 10
    assert run({"interp.linearMissing": [7, table]}, ["null", D]) is None


def tree(value, **more):
    field = {"type": "enum", "name": "Fields", "symbols": ["x", "kind"]}
    fields = {"field": field, "operator": S, "value": value, "pass": ["Tree", S], "fail": ["Tree", S], **more}
    return record("Tree", **fields)


DATUM = record("Datum", x=D, kind=S)


def score(node, datum, value=(D, S), name="model.tree.simpleTree", **more):
    action = {name: ["input", {"cell": "tree"}, *more.pop("test", ())]}
    cells = {"tree": {"type": tree(list(value), **more), "init": node}}
    return Engine({"input": DATUM, "output": S, "action": action, "cells": cells}).run(datum)


@pytest.mark.parametrize(
    ("operator", "x", "side"),
    [("<", 1.0, "no"), ("<=", 1.0, "yes"), (">", 2.0, "yes"), (">=", 0.5, "no"), ("==", 1.0, "yes"), ("!=", 1.0, "no")]
    + [(name, math.nan, "no") for name in ("<", "<=", ">", ">=", "==")]
    + [("alwaysTrue", 0.0, "yes"), ("alwaysFalse", 0.0, "no")],
)
def test_a_tree_goes_the_way_of_its_comparison(operator, x, side):
    node = {"field": "x", "operator": operator, "value": {"double": 1.0}}
    node |= {"pass": {"string": "yes"}, "fail": {"string": "no"}}
    assert score(node, {"x": x, "kind": "a"}) == side


def test_a_tree_asks_text_and_sets_and_refuses_what_does_not_fit():
    leaf = {"pass": {"string": "yes"}, "fail": {"string": "no"}}
    node = {"field": "kind", "operator": "==", "value": {"string": "a"}, **leaf}
    deep = {"field": "x", "operator": "<", "value": {"double": 0}, "pass": {"Tree": node}, "fail": {"string": "out"}}
    assert score(deep, {"x": -1.0, "kind": "a"}) == "yes"
    assert score(deep, {"x": 1.0, "kind": "a"}) == "out"
    members = {"field": "kind", "operator": "in", "value": {"array": ["a", "b"]}, **leaf}
    assert score(members, {"x": 0.0, "kind": "b"}, (D, array(S))) == "yes"
    for wrong, code in (({"operator": "like"}, 32060), ({"value": {"string": "text"}, "field": "x"}, 32061)):
        with pytest.raises(PfaError) as caught:
            score({**node, **wrong}, {"x": 0.0, "kind": "a"})
        assert caught.value.code == code


def test_a_walk_takes_the_way_of_what_is_missing():
    field = {"type": "enum", "name": "Fields", "symbols": ["x"]}
    node = record(
        "Tree", field=field, operator=S, value=D, missing=["Tree", S], **{"pass": ["Tree", S], "fail": ["Tree", S]}
    )
    init = {"field": "x", "operator": "<", "value": 1, "missing": {"string": "gone"}}
    init |= {"pass": {"string": "yes"}, "fail": {"string": "no"}}
    datum = record("Datum", x=["null", D])
    test = fcn([{"d": "Datum"}, {"t": "Tree"}], ["null", B], {"model.tree.missingTest": ["d", "t"]})
    action = {"model.tree.missingWalk": ["input", {"cell": "tree"}, test]}
    cells = {"tree": {"type": node, "init": init}}
    asked = Engine({"input": datum, "output": S, "action": action, "cells": cells})
    assert [asked.run({"x": x}) for x in (0.0, 2.0, None)] == ["yes", "no", "gone"]


def _parts(value):
    yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _parts(one)


STRANGE = [None, True, -1, 1 << 63, 1e308, "", "input", D, [], {}, ["x"], {"type": "array"}, "Unknown", {"fcn": 5}]
POOL = [*(part for case in CASES for part in _parts([case[0], case[1]])), *STRANGE]


def mutated(value, rng):
    """Return a document with some of its parts exchanged for parts of others."""
    if rng.random() < 0.06:
        return copy.deepcopy(rng.choice(POOL))
    if isinstance(value, dict):
        return {key: mutated(one, rng) for key, one in value.items()}
    return [mutated(one, rng) for one in value] if isinstance(value, list) else value


@settings(max_examples=400, deadline=None)
@given(case=st.sampled_from(CASES), rng=st.randoms(use_true_random=False))
def test_no_document_of_exchanged_parts_raises_anything_but_our_own_errors(case, rng):
    document = {"input": "null", "output": mutated(case[1], rng), "action": mutated(case[0], rng)}
    with contextlib.suppress(VitrifyError, PfaError):
        Engine(document, steps=3_000).run(None)


SIMPLE = {"double": st.floats(), "int": st.integers(-(2**31), 2**31 - 1), "string": st.text(max_size=5)}
GIVEN = {
    **SIMPLE,
    "boolean": st.booleans(),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    **{f"[{key}]": st.lists(value, max_size=4) for key, value in SIMPLE.items()},
}
PLAIN = [
    (name, one)
    for name, function in sorted(LIBRARY.items())
    for one in function.signatures
    if all(part.kind in GIVEN for part in (*one.params, one.result))
]


@settings(max_examples=400, deadline=None)
@given(chosen=st.sampled_from(PLAIN), data=st.data())
def test_no_values_raise_anything_but_the_language_s_own_errors(chosen, data):
    name, signature = chosen
    kinds = [part.kind for part in signature.params]
    row = {f"p{at}": data.draw(GIVEN[kind]) for at, kind in enumerate(kinds)}
    datum = record("Row", **{f"p{at}": kind for at, kind in enumerate(kinds)})
    action = {name: [{"attr": "input", "path": [text(key)]} for key in row]}
    try:
        found = Engine({"input": datum, "output": signature.result.kind, "action": action}).run(row)
    except PfaError:
        return
    if signature.result.kind in {"int", "long"}:
        assert isinstance(found, int)
        assert abs(found) <= 2**63
    if signature.result.kind in {"float", "double"}:
        assert isinstance(found, float)


@settings(max_examples=100, deadline=None)
@given(
    x=st.lists(st.floats(width=32), min_size=1, max_size=6),
    y=st.floats(width=32, allow_nan=False, allow_infinity=False),
)
@pytest.mark.parametrize("name", ["+", "-", "*"])
def test_float_arithmetic_is_that_of_single_precision(name, x, y):
    action = {"a.map": ["input", fcn([{"v": "float"}], "float", {name: ["v", {"cast.float": y}]})]}
    found = Engine({"input": array("float"), "output": array("float"), "action": action}).run(x)
    with np.errstate(all="ignore"):
        left, right = np.array(x, np.float32), np.float32(y)
        expected = {"+": left + right, "-": left - right, "*": left * right}[name]
    np.testing.assert_array_equal(np.array(found, np.float32), expected)
