"""A live model and its ONNX graph, side by side."""

from __future__ import annotations

import contextlib
import io
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime as ort
import pandas as pd
import pytest

from vitrify import containers
from vitrify.checks.parity import compare_sessions
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.plan import Step
from vitrify.core.protocols import Subject
from vitrify.runtimes.onnxruntime import OnnxRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Written


PROVEN_ROWS = 600
"""Rows that a proof compares, about."""


@dataclass
class Memory:
    """A sink that keeps what is written, and the files that it then holds."""

    files: dict[str, bytes] = field(default_factory=dict)

    @contextlib.contextmanager
    def open(self, name: str, kind: str) -> Iterator[io.BytesIO]:
        stream = io.BytesIO()
        yield stream
        self.files[name] = stream.getvalue()

    @contextlib.contextmanager
    def path(self, name: str, kind: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder, "file")
            self.files[name] = Path(folder, "file").read_bytes()

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.files))

    def read(self, name: str) -> bytes:
        return self.files[name]

    def map(self, name: str) -> memoryview:
        return memoryview(self.files[name])


@dataclass
class Pair:
    """A source session and the session of its graph, made from one example."""

    written: Written
    proto: onnx.ModelProto
    source: Any
    graph: Any
    document: Document

    def both(self, data: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        return self.source.predict(data), self.graph.predict(data)

    def agree(self, data: Any, *, ulps: float = 4, atol: float = 0.0) -> dict[str, float]:
        """Compare all outputs: labels equal, numbers within some ulps of their own type; return the worst ulps."""
        expected, given = self.both(data)
        assert list(expected) == list(given)
        worst = {}
        for name, want in expected.items():
            have = given[name]
            assert have.shape == want.shape, name
            assert have.dtype == want.dtype, name
            if want.dtype.kind != "f":
                np.testing.assert_array_equal(have, want, err_msg=name)
                worst[name] = 0.0
                continue
            np.testing.assert_array_equal(np.isnan(have), np.isnan(want), err_msg=name)
            known = ~np.isnan(want) & (have != want)
            apart = np.abs(have[known].astype(np.float64) - want[known])
            scale = np.spacing(np.abs(want[known])).astype(np.float64)
            excess = np.maximum(apart - atol, 0) / scale
            worst[name] = float(excess.max(initial=0))
            assert worst[name] <= ulps, (name, worst[name], have[known][:3], want[known][:3])
        return worst


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Let ONNX Runtime use one thread: several split the trees of an ensemble, and add in another order."""

    class OneThread(ort.SessionOptions):
        def __init__(self):
            super().__init__()
            self.intra_op_num_threads = 1

    monkeypatch.setattr("vitrify.runtimes.onnxruntime.ort.SessionOptions", OneThread)


@pytest.fixture
def subject():
    """Return a function that makes a subject from a live model and an example."""

    def make(model: Any, example: Any) -> Subject:
        format_ = catalog().for_object("format", model).name
        runtime = catalog().for_object("runtime", model).load()
        given = containers.example(example)
        entry = runtime.entry(model, given)
        document = Document(schema=SCHEMA, format=format_, runtime="estimator", entry=entry, signature=given.signature)
        outputs = runtime.wrap(model, document).run(given.arrays)
        fields = runtime.describe_outputs(model, outputs, entry)
        document = document.replace(signature=given.signature.replace(outputs=fields))
        return Subject(files=None, document=document, golden=given.arrays, native=model)

    return make


@pytest.fixture
def convert(subject):
    """Return a function that converts a live model by its format's transform."""

    def run(model: Any, example: Any, **options: Any) -> Pair:
        source = subject(model, example)
        transform, step = transform_of(source, options)
        assert transform.problems(source, step) == ()
        sink = Memory()
        written = transform.apply(source, step, sink)
        proto = onnx.load_from_string(sink.files["model.onnx"])
        document = source.document.replace(format="onnx", runtime="onnxruntime", entry=written.entry)
        document = Document.from_json(document.to_json(), where="as a store keeps it")
        native = catalog().for_object("runtime", model).load().wrap(model, source.document)
        return Pair(written, proto, native, OnnxRuntime().wrap(proto, document), document)

    return run


@pytest.fixture
def proven(convert):
    """Return a function that converts a live model and lets parity try to break what came out."""

    def run(model: Any, example: Any, **options: Any) -> Pair:
        pair = convert(model, example, **options)
        samples = containers.to_arrays(example, pair.document.signature)
        report = compare_sessions(pair.graph, pair.source, samples, row_count=PROVEN_ROWS, model=model)
        assert report.passed, str(report)
        return pair

    return run


@pytest.fixture
def memory():
    """Return a sink and the files in one."""
    return Memory()


@pytest.fixture
def problems(subject):
    """Return a function that lists what cannot be converted."""

    def run(model: Any, example: Any, **options: Any):
        source = subject(model, example)
        transform, step = transform_of(source, options)
        return transform.problems(source, step)

    return run


def transform_of(source: Subject, options: dict[str, Any]):
    name = f"{source.document.format}-to-onnx"
    step = Step(transform=name, source=source.document.format, target="onnx", fidelity="numeric", options=options)
    return catalog().load("transform", name), step


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def around(values: np.ndarray) -> np.ndarray:
    """Return each value and its neighbours one ulp away, in float64 and in float32."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
        near = [values, np.nextafter(values, -np.inf), np.nextafter(values, np.inf)]
        near += [np.nextafter(narrow, np.float32(side)).astype(np.float64) for side in (-np.inf, np.inf)]
    every = np.concatenate([*near, narrow.astype(np.float64)])
    return every[np.isfinite(every)]


@pytest.fixture
def probes():
    """Return a function that turns rows into rows on and around thresholds, extreme, and far away."""

    def make(x: np.ndarray, thresholds: dict[int, np.ndarray] | None = None, *, missing: bool = False) -> np.ndarray:
        rows = [x, -x, x * 1e6, x * 1e-6, np.zeros((1, x.shape[1]))]
        rng = np.random.default_rng(1)
        for column, values in (thresholds or {}).items():
            near = around(np.unique(values))
            block = x[rng.integers(0, len(x), len(near))].copy()
            block[:, column] = near
            rows.append(block)
        result = np.concatenate(rows)
        if missing:
            holes = result.copy()
            holes[rng.random(holes.shape) < 0.3] = np.nan
            result = np.concatenate([result, holes])
        return result

    return make


ROWS = 120
WORDS = np.array(["", "a", "Ünïcode", "red", "RED", "red wine", "naïve", "日本", "12", "x_1"])


@pytest.fixture(scope="session")
def table():
    """Return a table with columns of every kind that a graph can take."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "income": rng.normal(4e4, 1e4, ROWS),
            "id": rng.integers(2**53, 2**60, ROWS),
            "flag": rng.random(ROWS) > 0.5,
            "narrow": rng.normal(size=ROWS).astype(np.float32),
            "colour": WORDS[rng.integers(0, len(WORDS), ROWS)],
            "text": [" ".join(rng.choice(WORDS, 5)) for _ in range(ROWS)],
        }
    )


@pytest.fixture(scope="session")
def labels(table):
    return np.where((table["income"] > 4e4) ^ (table["colour"] == "red"), "yes", "no")


@pytest.fixture(scope="session")
def x():
    rng = np.random.default_rng(0)
    return rng.normal(size=(ROWS, 4)) * [1, 10, 100, 0.01]


@pytest.fixture(scope="session")
def binary(x):
    return np.where(x[:, 0] + x[:, 1] / 10 > 0, "yes", "no")


@pytest.fixture(scope="session")
def three(x):
    return np.digitize(x[:, 0] + x[:, 2] / 100, [-0.7, 0.7]) * 10


@pytest.fixture(scope="session")
def real(x):
    return x[:, 0] * 3 + np.sin(x[:, 1]) + 5
