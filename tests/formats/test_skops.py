"""The .skops format: what a user's model needs from it."""

from __future__ import annotations

import functools
import io
import json
import operator
import os
import subprocess
import sys
import threading
import tracemalloc
import zipfile
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from vitrify.core.errors import UnsupportedModelError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops
from vitrify.inspection.identify import files_at

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
Y = (X[:, 0] > X[:, 1]).astype(int)


class Clipper(TransformerMixin, BaseEstimator):
    """A user's own transformer."""

    def __init__(self, limit=1.0):
        self.limit = limit

    def fit(self, X, y=None):
        self.limits_ = np.quantile(X, 0.9, axis=0) * self.limit
        return self

    def transform(self, X):
        return np.minimum(X, self.limits_)


def double(values):
    return values * 2


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Nested:
    class Inner:
        pass


@pytest.fixture
def saved(files_and_sink):
    """Write a model, and give what was written together with its files."""

    def write(model):
        place = files_and_sink()
        return Skops().write(model, place.sink, None), place.files()

    return write


@pytest.fixture
def copied(saved):
    """Write a model and read it again."""

    def copy(model, allow=()):
        written, files = saved(model)
        return Skops().read(files, written.entry, Allow.of(allow))

    return copy


def table():
    return pd.DataFrame(
        {
            "text": ["aa bb", "bb cc", "cc dd ää", "aa dd"] * 15,
            "kind": pd.Series(["x", "y", np.nan, "z"] * 15, dtype=object),
            "size": X[:, 0],
            "age": np.arange(60),
        }
    )


def test_a_pipeline_over_text_categories_and_numbers_predicts_the_same_to_the_bit(copied):
    columns = ColumnTransformer(
        [
            ("text", TfidfVectorizer(), "text"),
            ("kind", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
            ("numbers", StandardScaler(), make_column_selector(dtype_include=np.number)),
        ]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(table(), Y)
    copy = copied(model)
    np.testing.assert_array_equal(copy.predict_proba(table()), model.predict_proba(table()))
    assert copy.feature_names_in_.tolist() == ["text", "kind", "size", "age"]


def test_a_search_keeps_its_masked_results_and_its_splitter(copied):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression()),
        [{"logisticregression__C": [0.1, 1.0]}, {"standardscaler": ["passthrough"]}],
        cv=KFold(3),
        scoring=["accuracy", "f1"],
        refit="f1",
    ).fit(X, Y)
    copy = copied(search)
    np.testing.assert_array_equal(copy.predict(X), search.predict(X))
    masked = "param_logisticregression__C"
    assert copy.cv_results_[masked].tolist() == search.cv_results_[masked].tolist()
    assert copy.cv == search.cv or vars(copy.cv) == vars(search.cv)


def test_a_randomised_search_keeps_the_distributions_it_draws_from(saved, copied):
    draws = {"C": stats.loguniform(0.1, 1), "max_iter": stats.randint(50, high=60), "tol": stats.uniform(scale=1e-3)}
    search = RandomizedSearchCV(LogisticRegression(), draws, n_iter=2, cv=2, random_state=0).fit(X, Y)
    assert saved(search)[0].names == ()
    copy = copied(search)
    np.testing.assert_array_equal(copy.predict_proba(X), search.predict_proba(X))
    for name, frozen in draws.items():
        kept = copy.param_distributions[name]
        assert kept.rvs(random_state=1) == frozen.rvs(random_state=1)
        assert kept.support() == frozen.support()


def test_functions_that_compute_on_arrays_need_no_permission(saved, copied):
    model = make_pipeline(
        FunctionTransformer(np.abs),
        FunctionTransformer(np.log1p, inverse_func=np.expm1),
        FunctionTransformer(functools.partial(np.clip, a_min=0.0, a_max=2.0)),
        SelectKBest(f_classif, k=2),
        LogisticRegression(),
    ).fit(X, Y)
    assert saved(model)[0].names == ()
    np.testing.assert_array_equal(copied(model).predict_proba(X), model.predict_proba(X))


def test_the_same_model_gives_the_same_bytes_again_after_loading_and_after_training_again(files_and_sink):
    def train():
        return make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(X, Y)

    def content(model):
        place = files_and_sink()
        written = Skops().write(model, place.sink, None)
        copy = Skops().read(place.files(), written.entry, Allow())
        return place.files().read("model.skops"), copy

    model = train()
    first, copy = content(model)
    assert content(model)[0] == first
    assert content(copy)[0] == first
    assert content(train())[0] == first


def test_the_bytes_do_not_depend_on_the_order_of_sets_in_a_process(tmp_path):
    program = (
        "import io, sys\n"
        "from contextlib import contextmanager\n"
        "from sklearn.preprocessing import FunctionTransformer\n"
        "from vitrify.formats.skops import Skops\n"
        "class Sink:\n"
        "    @contextmanager\n"
        "    def open(self, name, kind):\n"
        "        yield sys.stdout.buffer\n"
        "words = {f'word{i}' for i in range(50)}\n"
        "Skops().write(FunctionTransformer(kw_args={'s': words, 'f': frozenset(words)}), Sink(), None)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_reading_and_writing_import_neither_skops_nor_more_of_sklearn_than_the_model_needs():
    program = (
        "import sys\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "from vitrify.formats.skops import Skops\n"
        "from contextlib import contextmanager\n"
        "class Sink:\n"
        "    @contextmanager\n"
        "    def open(self, name, kind):\n"
        "        import io\n"
        "        yield io.BytesIO()\n"
        "Skops().write(StandardScaler(), Sink(), None)\n"
        "print([m for m in ('skops', 'torch', 'sklearn.ensemble', 'sklearn.gaussian_process') if m in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "[]"


def test_a_custom_class_is_named_when_written_and_needs_permission_when_read(saved):
    model = make_pipeline(Clipper(), FunctionTransformer(double), LogisticRegression()).fit(X, Y)
    written, files = saved(model)
    assert written.names == (f"{__name__}.Clipper", f"{__name__}.double")
    with pytest.raises(UntrustedCodeError) as caught:
        Skops().read(files, written.entry, Allow.of([f"{__name__}.double"]))
    assert caught.value.names == (f"{__name__}.Clipper",)
    copy = Skops().read(files, written.entry, Allow.of(written.names))
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


def test_bound_methods_and_operators_need_their_own_name(saved):
    inner = StandardScaler().fit(X)
    model = FunctionTransformer(
        inner.transform, kw_args={"by": operator.attrgetter("size"), "at": operator.itemgetter(1)}
    )
    written, files = saved(model)
    assert written.names == ("operator.attrgetter", "sklearn.preprocessing._data.StandardScaler.transform")
    copy = Skops().read(files, written.entry, Allow.of(written.names))
    np.testing.assert_array_equal(copy.transform(X) if not copy.kw_args else copy.func(X), inner.transform(X))
    assert copy.kw_args["at"]([1, 2]) == 2
    assert copy.kw_args["by"](X) == X.size


def test_everything_that_cannot_be_kept_is_listed_at_once_with_its_place(saved):
    limit = 3
    lock = threading.Lock()
    model = Pipeline(
        [
            ("scale", FunctionTransformer(lambda values: values)),
            ("clip", FunctionTransformer(double, kw_args={"lock": lock, "fine": 1})),
            ("model", LogisticRegression()),
        ]
    )
    model.extra_ = [Nested.Inner(), {"key": (value for value in range(limit))}]
    with pytest.raises(UnsupportedModelError) as caught:
        saved(model)
    places = [problem.place for problem in caught.value.problems]
    assert places == ["steps[0].func", "steps[1].kw_args['lock']", "extra_[0]", "extra_[1]['key']"]
    assert all(problem.message for problem in caught.value.problems)
    assert "pickle" in caught.value.remedy


def test_a_cycle_is_refused_with_its_place(saved):
    model = FunctionTransformer(kw_args={})
    model.kw_args["self"] = model
    with pytest.raises(UnsupportedModelError, match=r"kw_args\['self'\]: it refers back"):
        saved(model)


def test_values_nested_too_deep_are_refused_not_crashed(saved):
    value = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(UnsupportedModelError, match="nested deeper"):
        saved(FunctionTransformer(kw_args={"value": value}))


def test_nothing_is_written_when_something_cannot_be_kept(files_and_sink):
    place = files_and_sink()
    with pytest.raises(UnsupportedModelError):
        Skops().write(FunctionTransformer(lambda x: x), place.sink, None)
    assert place.files().names() == ()


def test_shared_objects_stay_shared_and_are_written_once(saved, copied):
    array = RNG.normal(size=1000)
    model = FunctionTransformer(kw_args={"a": array, "b": [array, array], "c": {"d": array}})
    copy = copied(model).kw_args
    assert copy["a"] is copy["b"][0] is copy["b"][1] is copy["c"]["d"]
    assert len(saved(model)[1].read("model.skops")) < 2 * array.nbytes


def test_arrays_keep_their_values_dtype_and_order_and_are_writable(copied):
    base = RNG.normal(size=(6, 8))
    arrays = [
        *(base.T, base[::2], base[:, ::-1], np.asfortranarray(base), np.zeros((0, 3)), np.array(5), base.astype(">f4")),
        *(
            np.array(["é", ""]),
            np.array([b"a"]),
            np.array(["2020-01-01"], "M8[s]"),
            np.array([1 + 2j]),
            np.float16([1]),
        ),
        np.zeros(3, [("a", "i1"), ("b", "f8")]),
    ]
    for array, copy in zip(arrays, copied(FunctionTransformer(kw_args={"a": arrays})).kw_args["a"], strict=True):
        np.testing.assert_array_equal(copy, array)
        assert copy.dtype == array.dtype
        assert copy.shape == array.shape
        assert copy.flags.writeable
        assert array.flags.c_contiguous == copy.flags.c_contiguous or not array.flags.f_contiguous


def test_the_memory_between_the_fields_of_a_record_is_not_written(saved):
    dtype = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    noise = np.frombuffer(b"\xaa" * dtype.itemsize * 4, dtype).copy()
    noise["a"], noise["b"] = 1, 2.0
    zeros = np.zeros(4, dtype)
    zeros["a"], zeros["b"] = 1, 2.0
    first, second = (
        saved(FunctionTransformer(kw_args={"a": array}))[1].read("model.skops") for array in (noise, zeros)
    )
    assert first == second


def test_slots_series_and_indexes_come_back(copied):
    index = pd.Index(["a", "b"], name="n")
    values = {
        "slots": Slotted(1, [2]),
        "index": index,
        "range": pd.RangeIndex(3, name="r"),
        "series": pd.Series([1.5, 2.5], index=index, name="s"),
        "text": pd.Series(["x", None]),
    }
    copy = copied(FunctionTransformer(kw_args=values), allow=[f"{__name__}.Slotted"]).kw_args
    assert (copy["slots"].a, copy["slots"].b) == (1, [2])
    pd.testing.assert_index_equal(copy["index"], index)
    pd.testing.assert_index_equal(copy["range"], values["range"])
    pd.testing.assert_series_equal(copy["series"], values["series"])
    pd.testing.assert_series_equal(copy["text"], values["text"])


def test_random_states_go_on_where_they_were(copied):
    state, generator = np.random.RandomState(3), np.random.default_rng(4)
    state.normal(size=3)
    generator.normal(size=3)
    copy = copied(FunctionTransformer(kw_args={"s": state, "g": generator})).kw_args
    np.testing.assert_array_equal(copy["s"].normal(size=5), state.normal(size=5))
    np.testing.assert_array_equal(copy["g"].normal(size=5), generator.normal(size=5))
    np.testing.assert_array_equal(copy["g"].spawn(1)[0].random(3), generator.spawn(1)[0].random(3))


def test_members_are_stored_in_a_zip_without_a_clock(saved):
    _, files = saved(RandomForestClassifier(3, random_state=0).fit(X, Y))
    with zipfile.ZipFile(io.BytesIO(files.read("model.skops"))) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert json.loads(archive.read("schema.json"))["protocol"] == 2


def test_describe_tells_class_params_steps_features_and_classes_without_constructing(saved, monkeypatch):
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = np.where(Y, "yes", "no")
    written, files = saved(make_pipeline(Clipper(), HistGradientBoostingClassifier(max_iter=2)).fit(frame, labels))
    monkeypatch.setattr("vitrify.formats._skops.build.Builder.build", None)
    told = Skops().describe(files, written.entry)
    assert told["class"] == "sklearn.pipeline.Pipeline"
    assert told["steps"] == [
        ["clipper", f"{__name__}.Clipper"],
        [
            "histgradientboostingclassifier",
            "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        ],
    ]
    assert told["params"]["steps"][1][1]["params"]["max_iter"] == 2
    assert told["needs"] == [f"{__name__}.Clipper"]
    assert set(told["versions"]) >= {"scikit-learn", "numpy"}
    written, files = saved(LogisticRegression().fit(frame, labels))
    told = Skops().describe(files, written.entry)
    assert (told["library"], told["classes"]) == ("scikit-learn", ["no", "yes"])
    assert [(one["name"], one["shape"]) for one in told["inputs"]] == [(name, [None]) for name in "abcd"]
    assert json.dumps(told)


def test_detect_goes_by_content(saved, tmp_path):
    _, files = saved(StandardScaler())
    assert Skops().detect(files_at(files.path("model.skops")))
    other = tmp_path / "model.skops"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("schema.json", "{}")
    assert not Skops().detect(files_at(other))
    other.write_bytes(b"")
    assert not Skops().detect(files_at(other))
    assert not Skops().detect(files_at(tmp_path))


class Point(NamedTuple):
    x: int
    y: list


def test_a_named_tuple_comes_back_without_its_class_being_called(saved, monkeypatch):
    written, files = saved(FunctionTransformer(kw_args={"at": Point(1, [2])}))
    assert written.names == (f"{__name__}.Point",)
    monkeypatch.setattr(Point, "__new__", None)
    copy = Skops().read(files, written.entry, Allow.of(written.names)).kw_args["at"]
    assert type(copy) is Point
    assert (copy.x, copy.y) == (1, [2])


def test_a_memory_mapped_array_is_kept_as_a_plain_one(copied, tmp_path):
    np.save(tmp_path / "a.npy", X)
    copy = copied(FunctionTransformer(kw_args={"a": np.load(tmp_path / "a.npy", mmap_mode="r")})).kw_args["a"]
    assert type(copy) is np.ndarray
    np.testing.assert_array_equal(copy, X)


def test_writing_needs_no_copy_of_the_arrays_and_reading_one(files_and_sink):
    place = files_and_sink()
    array = np.zeros(4_000_000)
    tracemalloc.start()
    try:
        written = Skops().write(FunctionTransformer(kw_args={"a": array}), place.sink, None)
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        Skops().read(place.files(), written.entry, Allow())
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert writing < array.nbytes // 10
    assert reading - array.nbytes < array.nbytes // 10
