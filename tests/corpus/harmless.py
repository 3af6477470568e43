"""What honest people have in their files, much of it looking like the hostile ones."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import functools
import operator
import pathlib
import pickle
import pickletools
import random
import re
import struct
import uuid

import numpy as np

from corpus.containers import torch_zip
from corpus.weights import safetensors

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = (X[:, 0] > 0).astype(int)


def _deque() -> collections.deque:
    return collections.deque([1, 2, 3], maxlen=5)


def _default() -> collections.defaultdict:
    found = collections.defaultdict(list)
    found["a"].append(1)
    return found


VALUES = {
    "containers": {
        "list": [1, 2.5, None, True],
        "tuple": (1, (2, 3)),
        "set": {1, 2},
        "frozenset": frozenset("ab"),
        b"k": bytearray(b"v"),
    },
    "counter": collections.Counter("mississippi"),
    "defaultdict": _default(),
    "ordered": collections.OrderedDict(b=1, a=2),
    "deque": _deque(),
    "datetime": [
        dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC),
        dt.date(2026, 1, 2),
        dt.timedelta(1.5),
        dt.time(1),
    ],
    "decimal": decimal.Decimal("1.10"),
    "uuid": uuid.UUID(int=7),
    "path": pathlib.PurePosixPath("a/b"),
    "regex": re.compile(r"\w+", re.IGNORECASE),
    "random": random.Random(3),
    "array": np.arange(12.0).reshape(3, 4),
    "array-fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "array-text": np.array(["a", "bc"], dtype=object),
    "array-structured": np.array([(1, 2.0)], dtype=[("a", "<i4"), ("b", "<f8")]),
    "array-masked": np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    "array-dates": np.array(["2026-01-01", "NaT"], dtype="datetime64[ns]"),
    "scalars": [np.float32(1.5), np.int64(2**60), np.bool_(True), np.datetime64("2026-01-01"), np.str_("x")],
    "generator": np.random.default_rng(5),
    "random-state": np.random.RandomState(5),
    "ufuncs": [np.log1p, np.sqrt, np.maximum],
    "itemgetter": operator.itemgetter(1, 2),
    "partial": functools.partial(np.clip, a_min=0, a_max=1),
    "words": {
        "note": "never call os.system or eval(",
        "cmd": "import os; os.system('rm -rf /')",
        "code": b"cos\nsystem\n(S'x'\ntR.",
    },
    "keys": {"eval": 1, "exec": 2, "__import__": 3, "os.system": [4]},
}


def _scipy() -> dict:
    from scipy import sparse, special

    return {"expit": special.expit, "csr": sparse.csr_matrix(np.eye(3)), "csc-array": sparse.csc_array(np.eye(2))}


def _fitted() -> dict:
    """Twenty fitted objects of scikit-learn, compositions among them."""
    from sklearn import (
        calibration,
        cluster,
        compose,
        decomposition,
        ensemble,
        feature_extraction,
        feature_selection,
        impute,
        linear_model,
        model_selection,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    log = preprocessing.FunctionTransformer(np.log1p)
    models = {
        "logistic": linear_model.LogisticRegression(),
        "ridge": linear_model.RidgeCV(),
        "sgd": linear_model.SGDClassifier(random_state=0),
        "tree": tree.DecisionTreeClassifier(max_depth=3),
        "forest": ensemble.RandomForestClassifier(5, random_state=0),
        "boosting": ensemble.GradientBoostingClassifier(n_estimators=3),
        "histogram": ensemble.HistGradientBoostingClassifier(max_iter=3),
        "isolation": ensemble.IsolationForest(n_estimators=5, random_state=0),
        "svc": svm.SVC(probability=False),
        "neighbours": neighbors.KNeighborsClassifier(3),
        "bayes": naive_bayes.GaussianNB(),
        "network": neural_network.MLPClassifier((4,), max_iter=5, random_state=0),
        "kmeans": cluster.KMeans(2, n_init=1, random_state=0),
        "pca": decomposition.PCA(2),
        "imputer": impute.SimpleImputer(),
        "best": feature_selection.SelectKBest(k=2),
        "calibrated": calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), cv=2),
        "pipeline": pipeline.make_pipeline(preprocessing.MinMaxScaler(), log, linear_model.LogisticRegression()),
        "columns": compose.ColumnTransformer(
            [
                ("s", preprocessing.StandardScaler(), [0, 1]),
                ("o", preprocessing.KBinsDiscretizer(3, encode="ordinal"), [2]),
            ]
        ),
        "search": model_selection.GridSearchCV(tree.DecisionTreeClassifier(), {"max_depth": [1, 2]}, cv=2),
    }
    fitted = {name: _quiet(model) for name, model in models.items()}
    text = feature_extraction.text.TfidfVectorizer(ngram_range=(1, 2)).fit(["system os", "eval exec"])
    return {**fitted, "tfidf": text}


def _quiet(model):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, Y)


@functools.cache
def values() -> dict:
    """Every harmless value, by name."""
    return {**VALUES, "scipy": _scipy(), **{f"sklearn-{name}": model for name, model in _fitted().items()}}


def _pickled(name: str, protocol: int):
    def make(folder):
        path = folder / "model.pkl"
        path.write_bytes(pickle.dumps(values()[name], protocol))
        return path

    return make


def _joblib(name: str, compress):
    def make(folder):
        import joblib

        path = folder / "model.joblib"
        joblib.dump(values()[name], path, compress=compress)
        return path

    return make


def _state(folder):
    """A state dict: tied tensors, a parameter and a scalar, as torch.save writes it."""
    import torch

    weight = torch.arange(6.0).reshape(2, 3)
    path = folder / "model.pt"
    torch.save(
        collections.OrderedDict(a=weight, tied=weight.t(), p=torch.nn.Parameter(weight[0]), n=torch.tensor(3)), path
    )
    return path


def _interleaved(folder):
    """Protocol 4 with its frames cut in odd places, as some writers do."""
    body = pickle.dumps([{"a": index, "b": "x" * 50} for index in range(5)], 3)[2:]
    cut = [place for _, _, place in pickletools.genops(b"\x80\x03" + body)][12] - 2
    frames = b"".join(b"\x95" + struct.pack("<Q", len(part)) + part for part in (body[:cut], body[cut:]))
    path = folder / "model.pkl"
    path.write_bytes(b"\x80\x04" + frames)
    return path


CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def _gguf(folder):
    import gguf

    path = folder / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_chat_template(CHATML)
    writer.add_tensor("w", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _metadata(folder):
    """Metadata in which somebody keeps JSON in a text: deep, but only a text."""
    header = {
        "__metadata__": {"config": '{"a": {"b": {"c": "os.system"}}}'},
        "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    }
    path = folder / "model.safetensors"
    path.write_bytes(safetensors(header))
    return path


def _nested_zip(folder):
    path = folder / "model.pt"
    path.write_bytes(
        torch_zip(pickle.dumps({"epoch": 3}, 2), storages=0, extra={"archive/.data/serialization_id": b"1"})
    )
    return path


NAMES = (*VALUES, "scipy", *(f"sklearn-{name}" for name in (
    "logistic", "ridge", "sgd", "tree", "forest", "boosting", "histogram", "isolation", "svc", "neighbours", "bayes", "network", "kmeans",
    "pca", "imputer", "best", "calibrated", "pipeline", "columns", "search", "tfidf",
)))  # fmt: skip
JOBLIB = ("containers", "array", "array-text", "sklearn-forest", "sklearn-pipeline")
CODECS = (("zlib", 3), ("gzip", 3), ("bz2", 3), ("lzma", 3), ("xz", 3), ("lz4", 3))
BENIGN = {
    **{f"pickle-{protocol}-{name}": _pickled(name, protocol) for name in NAMES for protocol in (2, 4, 5)},
    **{f"joblib-plain-{name}": _joblib(name, 0) for name in JOBLIB},
    **{f"joblib-{codec}-{name}": _joblib(name, (codec, level)) for name in JOBLIB[1:4] for codec, level in CODECS},
    "torch-state-dict": _state,
    "torch-numbers": _nested_zip,
    "pickle-frames": _interleaved,
    "gguf-chatml": _gguf,
    "safetensors-metadata": _metadata,
}
