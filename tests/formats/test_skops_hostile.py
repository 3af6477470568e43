"""Files made to do harm: nothing in them is executed, and every one of them ends in one of our own errors."""

from __future__ import annotations

import io
import json
import pickle
import sys
import zipfile

import joblib
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from vitrify.core.errors import MalformedError, UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops
from vitrify.reading import npy
from vitrify.reading.files import LocalFiles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def items(loader, name, *children):
    return {"__class__": name, "__module__": "builtins", "__loader__": loader, "content": list(children)}


def arguments(*children):
    return items("TupleNode", "tuple", *children)


def named(loader, module, name, **more):
    return {"__class__": name, "__module__": module, "__loader__": loader, **more}


def constructed(module, name, *children):
    return named("ConstructorFromReduceNode", module, name, content=arguments(*children))


def mapping(**children):
    kinds = items("ListNode", "list", *[named("TypeNode", "builtins", "str") for _ in children])
    return named("DictNode", "builtins", "dict", key_types=kinds, content=children)


@pytest.fixture
def load(tmp_path):
    """Read bytes, or a schema with members, as a .skops file."""

    def read(content, allow=(), **members):
        path = tmp_path / "hostile.skops"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            with zipfile.ZipFile(path, "w") as archive:
                for name, data in members.items():
                    archive.writestr(name.replace("_", "."), data)
                archive.writestr("schema.json", json.dumps({"protocol": 2, **content}))
        return Skops().read(LocalFiles({"model.skops": path}), {}, Allow.of(allow))

    return read


@pytest.fixture(scope="module")
def audited():
    """Watch this process for commands that are run; an audit hook cannot be taken out again."""
    calls = []
    sys.addaudithook(lambda event, args: calls.append(event) if event in {"os.system", "subprocess.Popen"} else None)
    return calls


@pytest.fixture
def executed(audited):
    """Collect the commands that are run while a file is read."""
    audited.clear()
    return audited


@pytest.fixture
def written(files_and_sink):
    """Give schema and members of what Vitrify itself writes for a model."""

    def write(model):
        place = files_and_sink()
        Skops().write(model, place.sink, None)
        with zipfile.ZipFile(io.BytesIO(place.files().read("model.skops"))) as archive:
            members = {name.replace(".", "_"): archive.read(name) for name in archive.namelist()}
        return json.loads(members.pop("schema_json")), members

    return write


COMMAND = arguments(text("touch hacked"))
HARMFUL = {
    "constructor": (named("ConstructorFromReduceNode", "os", "system", content=COMMAND), "os.system"),
    "posix": (named("ConstructorFromReduceNode", "posix", "system", content=COMMAND), "posix.system"),
    "exec": (named("ConstructorFromReduceNode", "builtins", "exec", content=COMMAND), "builtins.exec"),
    "function": (named("FunctionNode", "os", "system"), "os.system"),
    "type": (named("TypeNode", "builtins", "exec"), "builtins.exec"),
    "object": (named("ObjectNode", "subprocess", "Popen", content=COMMAND), "subprocess.Popen"),
    "list": (named("ListNode", "os", "system", content=[text("touch hacked")]), "os.system"),
    "set": (named("SetNode", "builtins", "eval", content=[text("1")]), "builtins.eval"),
    "tuple": (named("TupleNode", "os", "system", content=[text("touch hacked")]), "os.system"),
    "dict": (named("DictNode", "os", "getcwd", key_types=items("ListNode", "list"), content={}), "os.getcwd"),
    "key types": (
        named(
            "DictNode",
            "builtins",
            "dict",
            key_types=items("ListNode", "list", named("TypeNode", "os", "system")),
            content={"ls": text(1)},
        ),
        "os.system",
    ),
    "default factory": (
        named(
            "DefaultDictNode",
            "collections",
            "defaultdict",
            content={"main": mapping(), "default_factory": named("FunctionNode", "os", "abort")},
        ),
        "os.abort",
    ),
    "partial": (
        named(
            "PartialNode",
            "functools",
            "partial",
            content={
                "func": named("FunctionNode", "os", "system"),
                "args": COMMAND,
                "kwds": mapping(),
                "namespace": text(None),
            },
        ),
        "os.system",
    ),
    "methodcaller": (named("OperatorFuncNode", "operator", "methodcaller", attrs=COMMAND), "operator.methodcaller"),
    "attrgetter": (named("OperatorFuncNode", "operator", "attrgetter", attrs=COMMAND), "operator.attrgetter"),
    "scalar": (named("NdArrayNode", "os", "system", type="json", content=[], shape=arguments(text(0))), "os.system"),
    "method": (
        named(
            "MethodNode",
            "sklearn.preprocessing._data",
            "StandardScaler",
            content={"func": "fit", "obj": named("ObjectNode", "sklearn.preprocessing._data", "StandardScaler")},
        ),
        "sklearn.preprocessing._data.StandardScaler.fit",
    ),
    "numpy loader": (named("FunctionNode", "numpy", "load"), "numpy.load"),
    "quantile forest": (
        named("QuantileForestNode", "os", "system", content=mapping(), __reduce__={"args": COMMAND}),
        "os.system",
    ),
}


@pytest.mark.parametrize(("schema", "name"), HARMFUL.values(), ids=HARMFUL)
def test_a_name_that_is_not_trusted_is_refused_by_its_exact_name(load, executed, schema, name):
    with pytest.raises(UntrustedCodeError) as caught:
        load(schema)
    assert caught.value.names == (name,)
    assert executed == []


def test_allowing_one_name_does_not_allow_another(load, executed):
    schema = items("ListNode", "list", named("FunctionNode", "os", "getcwd"), named("FunctionNode", "os", "system"))
    with pytest.raises(UntrustedCodeError) as caught:
        load(schema, allow=["os.getcwd"])
    assert caught.value.names == ("os.system",)


def test_a_module_outside_of_the_trusted_packages_is_not_even_imported(load):
    with pytest.raises(UntrustedCodeError):
        load(named("TypeNode", "antigravity", "fly"))
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (named("FunctionNode", "numpy", "linalg.norm"), "plain name"),
        (named("TypeNode", "sklearn.base", "BaseEstimator.__init__"), "plain name"),
        (named("TypeNode", "numpy..os", "system"), "plain name"),
        (named("FunctionNode", "x", "<lambda>"), "plain name"),
        (named("OperatorFuncNode", "os", "system", attrs=COMMAND), "OperatorFuncNode named os.system"),
        (named("OperatorFuncNode", "operator", "call", attrs=COMMAND), "OperatorFuncNode named operator.call"),
        (
            named("TreeNode", "os", "system", content=mapping(), __reduce__={"args": COMMAND}),
            "TreeNode named os.system",
        ),
        (
            named("LossNode", "os", "system", content=mapping(), __reduce__={"args": COMMAND}),
            "LossNode named os.system",
        ),
        (
            named("MethodNode", "builtins", "str", content={"func": "f", "obj": named("TypeNode", "os", "system")}),
            "MethodNode named builtins.str",
        ),
        (
            named(
                "RandomGeneratorNode",
                "numpy.random._generator",
                "Generator",
                content={"bit_generator": mapping(bit_generator=text("set_state")), "seed_seq": mapping()},
            ),
            "'set_state'",
        ),
        (named("EvilNode", "builtins", "str"), "unknown loader"),
        (constructed("builtins", "frozenset", constructed("builtins", "range", text(10**15))), "no list"),
        (constructed("collections", "Counter", constructed("builtins", "range", text(10**15))), "no list"),
        ({"__loader__": "ListNode", "__module__": 1, "__class__": []}, "plain name|without"),
        (named("ListNode", "builtins", "list", content="abc"), "list was expected"),
        (named("DictNode", "builtins", "dict", content={}), "without 'key_types'"),
        (
            named("DictNode", "builtins", "dict", key_types=items("ListNode", "list"), content={"a": text(1)}),
            "another number",
        ),
        (named("CachedNode", "builtins", "list", __id__=7), "id 7"),
        (
            named(
                "ListNode", "builtins", "list", __id__=3, content=[named("CachedNode", "builtins", "list", __id__=3)]
            ),
            "id 3",
        ),
        (named("NdArrayNode", "numpy", "ndarray", type="numpy", file="../../etc/passwd"), "no member"),
        (named("NdArrayNode", "numpy", "ndarray", type="json", content=[], shape=arguments(text(10**12))), "shape"),
        (named("JsonNode", "builtins", "str", content="["), "could not be made"),
        (named("ObjectNode", "sklearn.nowhere", "Model"), "would run code"),
        ({"protocol": 3, **text(1)}, "protocol 3"),
        ({"protocol": True, **text(1)}, "protocol True"),
    ],
)
def test_a_schema_that_no_honest_writer_makes_is_refused(load, executed, schema, message):
    with pytest.raises((MalformedError, UntrustedCodeError), match=message):
        load(schema)
    assert executed == []


def test_a_schema_nested_without_end_is_refused(load):
    deep = text(1)
    for _ in range(300):
        deep = items("ListNode", "list", deep)
    with pytest.raises(MalformedError, match="nested deeper"):
        load(deep)
    with pytest.raises(MalformedError, match="not valid JSON"):
        load(archive_of(("schema.json", "[" * 100_000)))


def archive_of(*members, compress=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compress) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return content.getvalue()


SCHEMA = json.dumps({"protocol": 2, **text(1)})


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_stands_twice_is_refused(load):
    with pytest.raises(MalformedError, match="stands twice"):
        load(archive_of(("schema.json", SCHEMA), ("schema.json", SCHEMA)))


def test_a_bomb_is_refused_before_it_is_unpacked(load):
    bomb = archive_of(("schema.json", SCHEMA), ("0.npy", bytes(200_000_000)), compress=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1_000_000
    with pytest.raises(MalformedError, match="unpack to"):
        load(bomb)


def test_a_member_that_holds_more_than_it_declares_is_refused(load):
    honest = archive_of(("schema.json", SCHEMA + " " * 5000), compress=zipfile.ZIP_DEFLATED)
    size = len(SCHEMA) + 5000
    lie = honest.replace(size.to_bytes(4, "little"), len(SCHEMA).to_bytes(4, "little"))
    assert lie != honest
    with pytest.raises(MalformedError, match="as long as the directory says"):
        load(lie)


def test_one_member_cannot_be_used_so_often_that_memory_fills(load):
    member = named("NdArrayNode", "numpy", "ndarray", type="numpy", file="0.npy")
    content = io.BytesIO()
    np.save(content, np.zeros(100_000))
    with pytest.raises(MalformedError, match="more than a file of this size"):
        load(items("ListNode", "list", *[member] * 120), **{"0_npy": content.getvalue()})


def test_an_array_with_a_pickle_inside_is_refused(load, executed):
    content = io.BytesIO()
    np.save(content, np.array([Payload()], object), allow_pickle=True)
    with pytest.raises(MalformedError, match="array of Python objects"):
        load(named("NdArrayNode", "numpy", "ndarray", type="numpy", file="0.npy"), **{"0_npy": content.getvalue()})
    assert executed == []


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': __import__('os'), 'fortran_order': False, 'shape': (), }",
        "(" * 3000,
        "",
    ],
)
def test_an_array_header_that_does_not_fit_its_bytes_is_refused(header):
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with pytest.raises(MalformedError, match=r"^x\.npy: "):
        npy.decode(memoryview(data), where="x.npy")


class Payload:
    def __reduce__(self):
        import os

        return os.system, ("touch hacked",)


def test_a_joblib_file_or_a_pickle_under_this_name_is_refused(load, executed, tmp_path):
    joblib.dump(Payload(), tmp_path / "model.joblib")
    for content in ((tmp_path / "model.joblib").read_bytes(), pickle.dumps(Payload()), b"", b"PK\x05\x06"):
        with pytest.raises(MalformedError):
            load(content)
    assert executed == []


def test_a_file_cut_off_anywhere_or_with_a_changed_byte_never_ends_in_another_error(load, files_and_sink):
    place = files_and_sink()
    Skops().write(DecisionTreeClassifier(max_depth=2).fit(X, Y), place.sink, None)
    whole = place.files().read("model.skops")

    @given(st.integers(0, len(whole) - 1), st.integers(1, 255))
    def damage(at, flip):
        for content in (whole[:at], whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]):
            try:
                load(content)
            except VitrifyError:
                continue

    damage()
    with pytest.raises(MalformedError):
        load(whole[: len(whole) // 2])


def rewrite(data, change):
    array = np.load(io.BytesIO(data)).copy()
    change(array)
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def nodes(members):
    return next(
        name for name, data in members.items() if b"left_child" in data or b"'left'" in data or b"bitset_idx" in data
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("left_child", 10**6), ("right_child", -5), ("left_child", 0), ("feature", 10**6), ("feature", -7)],
)
def test_a_tree_whose_indices_point_outside_is_refused(load, written, field, value):
    schema, members = written(DecisionTreeClassifier(max_depth=3).fit(X, Y))

    def change(array):
        array[field][0] = value

    members[nodes(members)] = rewrite(members[nodes(members)], change)
    with pytest.raises(MalformedError, match="point outside"):
        load(schema, **members)


@pytest.mark.parametrize(("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", -1)])
def test_a_histogram_tree_whose_indices_point_outside_is_refused(load, written, field, value):
    schema, members = written(HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=2).fit(X, Y))

    def change(array):
        array[field][0] = value

    members[nodes(members)] = rewrite(members[nodes(members)], change)
    with pytest.raises(MalformedError, match="point outside"):
        load(schema, **members)


def test_a_sparse_matrix_whose_indices_point_outside_is_refused(load, written):
    schema, members = written(FunctionTransformer(kw_args={"m": scipy.sparse.csr_array(np.eye(3))}))
    (name,) = (name for name in members if name.endswith("npz"))
    with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
        parts = [(part, archive.read(part)) for part in archive.namelist()]

    def change(array):
        array[-1] = 10**6

    members[name] = archive_of(
        *((part, rewrite(data, change) if part == "indices.npy" else data) for part, data in parts)
    )
    with pytest.raises(MalformedError, match="not a sparse matrix"):
        load(schema, **members)


def test_state_that_does_not_fit_its_class_is_an_error_of_ours(load):
    schema = named("ObjectNode", "sklearn.neighbors._kd_tree", "KDTree", content=arguments(text(1)))
    with pytest.raises(MalformedError, match="does not fit itself"):
        load(schema)


def test_a_model_of_this_format_still_loads(load, written):
    schema, members = written(StandardScaler().fit(X))
    np.testing.assert_array_equal(load(schema, **members).transform(X), StandardScaler().fit_transform(X))


def places(value, path=()):
    """Yield the path of every value in a JSON document."""
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


JSON = st.sampled_from(
    [None, True, -1, 0, 2**70, 1.5, "", "builtins", "list", "os", "0.npy", "[]", "nan", [], {}, [[]], "ListNode"]
)


@pytest.mark.filterwarnings("ignore")  # what is built from nonsense may warn; it must not do more than that
def test_a_schema_changed_anywhere_ends_in_a_model_or_in_one_of_our_errors(load, written):
    values = {
        "a": {1},
        "d": np.dtype("f4"),
        "m": np.ma.masked_equal([1, 2], 1),
        "r": np.random.default_rng(0),
        "s": slice(1),
    }
    schema, members = written(
        make_pipeline(FunctionTransformer(kw_args=values), DecisionTreeClassifier(max_depth=2).fit(X, Y))
    )
    everywhere = [path for path in places(schema) if path]

    @given(st.sampled_from(everywhere), JSON)
    def change(path, new):
        try:
            load(replaced(schema, path, new), **members)
        except VitrifyError:
            return

    change()
