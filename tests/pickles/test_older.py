"""Pickles of older releases: real ones, made by ``old/make.py``, say today what they said then, or say why not."""

import copyreg
import importlib.util
import io
import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles._older import moved, steps
from vitrify.pickles.machine import audit, load
from vitrify.pickles.older import Older

OLD = Path(__file__).parent / "old"
_spec = importlib.util.spec_from_file_location("make_old_pickles", OLD / "make.py")
make = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(make)

GONE = {
    ("0.19.2", "logistic_apart"): "one model a class",
    ("0.21.3", "logistic_apart"): "one model a class",
    ("1.0.2", "ada"): r"SAMME\.R",
}
"""What today's scikit-learn no longer has, and would answer wrongly."""

EVERY = [(path.parent.name, path.stem) for path in sorted(OLD.glob("*/*.pkl"))]


def read(release, name):
    path = OLD / release / f"{name}.pkl"
    return load(memoryview(path.read_bytes()), where=path.name, allow=Allow(), dialect=Older())


def test_every_release_and_model_that_is_made_is_here():
    assert set(EVERY) == {(release, name) for release, names in make.WANTED.items() for name in names.split()}


@pytest.mark.parametrize(("release", "name"), [one for one in EVERY if one not in GONE])
def test_an_old_model_says_what_it_said_then_without_a_warning(release, name):
    said = json.loads((OLD / release / "said.json").read_text())[name]
    X, _ = make.data(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = read(release, name)
        assert said
        for method, expected in said.items():
            answer = getattr(model, method)(X)
            answer = np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer)[: make.ROWS]
            np.testing.assert_allclose(answer.astype(float), np.array(expected, float), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("release", "name"), [one for one in EVERY if one not in GONE])
def test_an_old_model_can_be_cloned_and_holds_nothing_of_ours(release, name):
    from vitrify.formats._skops.capture import Capture

    model = read(release, name)
    clone(model)
    captured = Capture()
    captured.node(model, "")
    assert not any("vitrify" in str(one) for one in captured.problems)


@pytest.mark.parametrize(("release", "name"), GONE)
def test_what_scikit_learn_no_longer_has_is_an_error_that_names_the_release(release, name):
    with pytest.raises(MalformedError, match=GONE[release, name]) as caught:
        read(release, name)
    assert f"scikit-learn {release}" in caught.value.message
    assert f"scikit-learn=={release}" in caught.value.remedy


@pytest.mark.parametrize(("release", "name"), EVERY)
def test_an_old_model_needs_no_permission(release, name):
    found = audit(memoryview((OLD / release / f"{name}.pkl").read_bytes()), where=name, dialect=Older())
    assert found.findings == ()


def old_style(model, **changes):
    """Pickle a model of today as if an older release had written its state; ``...`` leaves an attribute out."""
    state = {key: value for key, value in {**model.__getstate__(), **changes}.items() if value is not ...}

    class Pickler(pickle.Pickler):
        def reducer_override(self, value):
            return (copyreg.__newobj__, (type(model),), state) if value is model else NotImplemented

    stream = io.BytesIO()
    Pickler(stream, protocol=4).dump(model)
    return memoryview(stream.getvalue())


def test_a_parameter_that_came_later_has_its_default():
    from sklearn.linear_model import Ridge

    model = Ridge().fit([[0.0], [1.0]], [0.0, 1.0])
    content = old_style(model, _sklearn_version="0.24.2", positive=...)
    loaded = load(content, where="x", allow=Allow(), dialect=Older())
    assert loaded.get_params() == model.get_params()
    assert vars(loaded).keys() == vars(model).keys()


def test_a_state_of_another_shape_is_an_error_that_names_the_release():
    from sklearn.cross_decomposition import PLSRegression

    model = PLSRegression(n_components=1).fit([[0.0, 1.0], [1.0, 0.5], [2.0, 3.0]], [0.0, 1.0, 2.0])
    content = old_style(model, _sklearn_version="1.1.3", y_loadings_="no array")
    with pytest.raises(MalformedError, match=r"scikit-learn 1\.1\.3"):
        load(content, where="x", allow=Allow(), dialect=Older())


def test_what_a_newer_release_wrote_is_not_read_as_if_it_were_old():
    from sklearn.linear_model import Ridge

    content = old_style(Ridge(), _sklearn_version="99.1.0")
    with pytest.raises(MalformedError, match=r"scikit-learn 99\.1\.0") as caught:
        load(content, where="x", allow=Allow(), dialect=Older())
    assert "scikit-learn==99.1.0" in caught.value.remedy


def test_a_stranger_s_loss_and_function_are_refused():
    def call(name, *args):
        module, _, function = name.rpartition(".")
        parts = b"".join(pickle.dumps(one, protocol=2)[2:-1] for one in args)
        return memoryview(b"\x80\x02c" + module.encode() + b"\n" + function.encode() + b"\n(" + parts + b"tR.")

    for content in (
        call("numpy.core._ufunc_reconstruct", "os", "system"),
        call("numpy.core._ufunc_reconstruct", "numpy", "fromfile"),
        call("sklearn._loss._loss.__pyx_unpickle_CyHuberLoss", "os", 1, (0.5,)),
    ):
        with pytest.raises(MalformedError):
            load(content, where="x", allow=Allow(), dialect=Older())


def test_a_frame_of_pandas_1_is_read():
    """Made with pandas 1.0.5: ``DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}, index=[3, 4])``."""
    content = (OLD / "frame-of-pandas-1.0.5.pickle").read_bytes()
    assert b"Int64Index" in content
    frame = load(memoryview(content), where="x", allow=Allow(), dialect=Older())
    assert frame.to_dict("list") == {"a": [1, 2], "b": ["x", "y"], "c": [0.5, 1.5]}
    assert frame.index.tolist() == [3, 4]


def test_a_damaged_part_is_found_before_a_step_walks_through_it():
    import scipy.sparse
    from sklearn.feature_extraction.text import TfidfTransformer

    model = TfidfTransformer().fit([[1, 2], [0, 1]])
    broken = scipy.sparse.csr_array(np.diag(model.idf_))
    broken.indptr = np.array([0, 10**9, 2 * 10**9])
    content = old_style(model, _sklearn_version="1.3.2", idf_=..., _idf_diag=broken)
    with pytest.raises(MalformedError, match=r"scikit-learn 1\.3\.2"):
        load(content, where="x", allow=Allow(), dialect=Older())


def test_names_are_found_where_they_live_today():
    assert moved.today("sklearn.ensemble.forest", "RandomForestClassifier")[0] == "sklearn.ensemble._forest"
    assert moved.today("sklearn.externals.joblib.numpy_pickle", "NumpyArrayWrapper")[0] == "joblib.numpy_pickle"
    assert moved.today("numpy.core.multiarray", "scalar")[0] == "numpy._core.multiarray"
    assert moved.today("scipy.sparse.csr", "csr_matrix")[0] == "scipy.sparse._csr"
    assert moved.today("pandas.core.indexes.numeric", "Int64Index") == ("pandas.core.indexes.base", "Index")
    assert moved.today("os", "system") == ("os", "system")


def test_every_new_place_is_there():
    for module, name in moved._NAMES.values():
        if not module.startswith("pandas"):
            assert hasattr(importlib.import_module(module), name), (module, name)
    for module in moved._MODULES.values():
        if module.partition(".")[0] in {"numpy", "scipy", "sklearn"}:
            assert importlib.util.find_spec(module) is not None, module


def test_every_step_is_for_a_class_that_is_there():
    from vitrify.pickles._older import others, trees  # noqa: F401 (importing them registers their steps)

    missing = []
    for cls in steps._STEPS:
        module, _, name = cls.rpartition(".")
        if not hasattr(importlib.import_module(module), name):
            missing.append(cls)
    assert missing == []


def test_a_version_is_read_as_two_numbers():
    assert steps.parsed("0.22.2.post1") == (0, 22)
    assert steps.parsed("1.10.0") > steps.parsed("1.9.1")
    assert steps.parsed(None) == steps.parsed("no version") == steps.UNKNOWN
