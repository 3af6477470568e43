"""Pickle, the last resort: every name is known and allowed before the first opcode runs."""

from __future__ import annotations

import io
import pickle
import pickletools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from vitrify.core.errors import MalformedError, UnsupportedModelError, UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.formats.pickle import Pickle
from vitrify.inspection.identify import files_at
from vitrify.pickles.machine import audit
from vitrify.reading.files import HeldFiles, LocalFiles

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] > 0).astype(int)
RAN = []


class Mine:
    """A user's own model."""

    def __init__(self, factor):
        self.factor = factor

    def predict(self, rows):
        return rows * self.factor

    class Inner:
        pass


def note(value):
    RAN.append(value)
    return value


class Noting:
    def __reduce__(self):
        return note, ("ran",)


@pytest.fixture
def load(tmp_path):
    def read(content, allow=()):
        path = tmp_path / "model.pkl"
        path.write_bytes(content)
        return Pickle().read(LocalFiles({"model.pkl": path}), {}, Allow.of(allow))

    return read


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), RandomForestClassifier(2, random_state=0)),
        HistGradientBoostingClassifier(max_iter=2),
        KNeighborsClassifier(algorithm="kd_tree"),
        make_pipeline(FunctionTransformer(np.log1p, validate=True), LogisticRegression()),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_of_sklearn_comes_back_equal_and_needs_no_permission(model, files_and_sink):
    place = files_and_sink()
    model.fit(np.abs(X), Y)
    written = Pickle().write(model, place.sink, None)
    assert written.names == ()
    assert written.entry["code"] is False
    copy = Pickle().read(place.files(), written.entry, Allow())
    np.testing.assert_array_equal(copy.predict_proba(np.abs(X)), model.predict_proba(np.abs(X)))


def test_a_users_class_is_named_when_written_and_needs_permission_when_read(files_and_sink):
    place = files_and_sink()
    written = Pickle().write(Mine(np.float64(2)), place.sink, None)
    assert written.names == (f"{__name__}.Mine",)
    with pytest.raises(UntrustedCodeError) as caught:
        Pickle().read(place.files(), written.entry, Allow())
    assert caught.value.names == written.names
    assert Pickle().read(place.files(), written.entry, Allow.of(written.names)).predict(3) == 6


def test_the_same_model_gives_the_same_bytes(files_and_sink):
    first, second = files_and_sink(), files_and_sink()
    model = TfidfVectorizer().fit(["red green", "green blue"])
    for place in (first, second):
        Pickle().write(model, place.sink, None)
    assert first.files().read("model.pkl") == second.files().read("model.pkl")


def test_all_names_are_listed_before_anything_runs(load):
    content = pickle.dumps([Noting(), Noting(), Mine(1)])
    with pytest.raises(UntrustedCodeError) as caught:
        load(content, allow=[f"{__name__}.note"])
    assert caught.value.names == (f"{__name__}.Mine",)
    assert RAN == []
    load(content, allow=[f"{__name__}.note", f"{__name__}.Mine"])
    assert RAN == ["ran", "ran"]


@pytest.mark.parametrize("protocol", range(6))
def test_names_are_found_in_every_protocol(protocol):
    content = pickle.dumps(
        [Mine(1), {"a": (1, 2, 3), "b": {1}}, Mine(2), note, b"x", 2**70, 1.5, [True, None]], protocol
    )
    names = {name[:2] for name in audit(memoryview(content), where="x").names}
    assert {(__name__, "Mine"), (__name__, "note")} <= names


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=4),
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3) | st.tuples(below, below)
    ),
    max_leaves=10,
)


class Seen(pickle._Unpickler):
    """Python's own slow unpickler, which tells what it looks up."""

    def __init__(self, stream):
        super().__init__(stream)
        self.names = set()

    def find_class(self, module, name):
        self.names.add((module, name))
        return super().find_class(module, name)


@given(value=VALUES, protocol=st.integers(2, 5))
def test_the_names_found_without_running_are_those_that_python_looks_up_when_it_runs(value, protocol):
    content = pickletools.optimize(pickle.dumps([value, Mine(value), {1, 2}, complex(1), Mine], protocol))
    running = Seen(io.BytesIO(content))
    running.load()
    python3 = {("builtins" if module == "__builtin__" else module, name) for module, name in running.names}
    assert {name[:2] for name in audit(memoryview(content), where="x").names} == python3


HARMFUL = {
    "global": b"cposix\nsystem\n(S'touch hacked'\ntR.",
    "inst": b"(S'touch hacked'\niposix\nsystem\n.",
    "stack global": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x0ctouch hacked\x85R.",
    "memo": b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94h\x00h\x01\x93\x8c\x0ctouch hacked\x85R.",
    "put over put": b"\x80\x04\x8c\x05numpyq\x00\x8c\x05posixq\x000h\x00\x8c\x06system\x93\x8c\x02ls\x85R.",
    "dup": b"\x80\x04\x8c\x05posix2\x8c\x06system\x93\x8c\x02ls\x85R.",
}


@pytest.mark.parametrize("content", HARMFUL.values(), ids=HARMFUL)
def test_a_command_is_refused_by_its_name_however_it_is_spelled(load, content):
    with pytest.raises(UntrustedCodeError) as caught:
        load(content)
    assert caught.value.names == ("posix.system",)


HIDDEN = {
    "a name made while it runs": b"\x80\x04\x8c\x05posix\x8c\x03abc\x85\x8c\x06system\x93.",
    "an extension code": b"\x80\x02\x82\x01.",
    "a persistent id": b"\x80\x04\x8c\x01aQ.",
    "a dotted name": b"\x80\x04\x8c\x05numpy\x8c\x0blinalg.norm\x93.",
    "a dotted name in a global": b"cnumpy\nlinalg.norm\n.",
    "an empty stack": b"\x80\x04\x93.",
    "an unknown memo": b"\x80\x04h\x07.",
    "no mark": b"\x80\x04e.",
    "no end": b"\x80\x04]",
    "nothing": b"",
    "no pickle": b"PK\x03\x04",
}


@pytest.mark.parametrize("content", HIDDEN.values(), ids=HIDDEN)
def test_what_cannot_be_told_without_running_is_refused(load, content):
    with pytest.raises(MalformedError):
        load(content)


@given(content=st.binary(max_size=60), start=st.sampled_from([b"", b"\x80\x04", b"\x80\x05]\x94("]))
def test_arbitrary_bytes_end_in_a_value_or_in_one_of_our_errors(load, content, start):
    try:
        load(start + content)
    except VitrifyError:
        return


def test_a_pickle_that_fails_while_it_runs_is_an_error_of_ours(load):
    with pytest.raises(MalformedError, match="the pickle failed"):
        load(b"\x80\x04cbuiltins\nint\n\x8c\x01a\x85R.")


@pytest.mark.parametrize("model", [lambda rows: rows, threading.Lock(), Mine.Inner()], ids=["lambda", "lock", "nested"])
def test_what_pickle_cannot_keep_is_refused(files_and_sink, model):
    with pytest.raises(UnsupportedModelError) as caught:
        Pickle().write(model, files_and_sink().sink, None)
    assert caught.value.remedy


def test_describe_and_detect_run_nothing(files_and_sink, tmp_path):
    place = files_and_sink()
    written = Pickle().write([Noting(), np.zeros(2)], place.sink, None)
    told = Pickle().describe(place.files(), written.entry)
    assert told["code"] is True
    assert told["needs"] == [f"{__name__}.note"]
    assert f"{__name__}.note" in told["uses"]
    assert Pickle().detect(files_at(place.files().path("model.pkl")))
    assert RAN == []
    other = tmp_path / "x.pkl"
    other.write_bytes(b"no pickle")
    assert not Pickle().detect(files_at(other))
    assert not Pickle().detect(files_at(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        *(pickle.dumps([1, {"a": (2.5, None)}, Mine(1)], protocol) for protocol in range(6)),
        b"cposix\nsystem\n(S'x'\ntR\xff\xff\xff",
        b"N.cposix\nsystem\n(S'x'\ntR.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_what_begins_like_a_pickle_or_would_act_before_it_breaks_is_one(content, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    assert Pickle().detect(files_at(path))


@pytest.mark.parametrize(
    "content",
    [
        *(
            b"",
            b"cat\ndog\nbird\n",
            b"N.B. nothing here runs",
            b"I am a text\n",
            b"(1, 2)\n",
            b"import os\n",
            b"{}",
            b"[]",
        ),
        *(b"PK\x03\x04" + bytes(60), b"\x89PNG\r\n\x1a\n", b"\x93NUMPY\x01\x00", b"GGUF\x03" + bytes(40), b"\x80\x04"),
        b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.",
    ],
)
def test_text_and_other_files_are_none(content, tmp_path):
    path = tmp_path / "x.pkl"
    path.write_bytes(content)
    assert not Pickle().detect(files_at(path))


def test_describe_tells_class_library_parameters_and_versions(tmp_path):
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(make_pipeline(StandardScaler(), LogisticRegression(C=0.5)).fit(X, Y)))
    told = Pickle().describe(files_at(path), {"file": "x.pkl"})
    assert told["class"] == "sklearn.pipeline.Pipeline"
    assert told["library"] == "scikit-learn"
    assert told["code"] is False
    assert told["needs"] == []
    assert told["versions"]["scikit-learn"]
    assert [step[0] for step in told["steps"]] == ["standardscaler", "logisticregression"]
    assert told["params"]["steps"][1][1]["params"]["C"] == 0.5
    assert [one["shape"] for one in told["inputs"]] == [[None, X.shape[1]]]
    assert told["classes"] == sorted(set(Y))


@pytest.mark.parametrize("protocol", range(6))
def test_describe_tells_columns_and_classes_of_the_ends_of_a_pipeline(protocol):
    import pandas as pd

    frame, labels = pd.DataFrame(X).rename(columns=lambda at: f"column {at}"), ["é" if y else "no" for y in Y]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, labels)
    files = HeldFiles({"x.pkl": memoryview(pickle.dumps(model, protocol=protocol))})
    told = Pickle().describe(files, {"file": "x.pkl"})
    assert [one["name"] for one in told["inputs"]] == list(frame.columns)
    assert told["classes"] == ["no", "é"]
