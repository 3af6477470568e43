"""Conversion to ONNX: ours against the converter that each framework's users take today, pairwise in one process.

Timed apart: what the converter does (ours with its list of problems, without the proof), the proof, and prediction
through ONNX Runtime with one row and with 10,000, fed with what the source itself takes. A graph may be fast because it
computes something else: where the source is a classifier, its own answers are held against both graphs', row by row.
Names of cases as arguments run those alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

from _measure import SMALL_CNN, child, scratch, show

ROUNDS = 5
ROWS = 10_000
ASKED = 2_000
"""Rows that are asked one by one for right and wrong."""

SHARED = """
import warnings; warnings.filterwarnings("ignore")
import numpy as np, onnxruntime as ort, vitrify
from dataclasses import replace
from statistics import median
from vitrify.checks.parity import Parity
from vitrify.core.catalog import catalog
from vitrify.core.plan import Step
from vitrify.testing.directory import DirectorySink

def timed(work, times):
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times

def interleaved(rounds, times, *works):
    for work in works:
        work()
    return [median(column) for column in zip(*([timed(work, times) for work in works] for _ in range(rounds)))]

# How many rows, asked one by one, get another label, or a probability that is off by more than 1e-5 of itself.
def wrong(session, fed, labels, probabilities):
    name, count = session.get_inputs()[0].name, 0
    for row, label, wanted in zip(fed, labels, probabilities):
        given, shares = session.run(None, {name: row[None]})
        count += bool(given[0] != label or (np.abs(shares[0] - wanted) > 1e-5 * wanted).any())
    return count

def compare(model, example, rows, theirs, feed, *, via=None):
    rounds, home = int(sys.argv[1]), Path("ours")
    home.mkdir(exist_ok=True)
    source = vitrify.save(model, "model", example=example)
    if via is None:
        subject = replace(source.subject(), native=model)
    else:
        source = vitrify.convert(source, to=via)
        subject = source.subject()
    road = catalog().row("transform", f"{source.document.format}-to-onnx")
    step = Step(transform=road.name, source=road.source, target="onnx", fidelity=road.fidelity)
    transform = road.load()
    def ours():
        for file in home.iterdir():
            file.unlink()
        assert not transform.problems(subject, step)
        sink = DirectorySink(home)
        transform.apply(subject, step, sink)
        return sink.contents()["model.onnx"]
    convert, other = interleaved(rounds, 1, ours, theirs)
    a = ort.InferenceSession(ours())
    b = ort.InferenceSession(theirs())
    start = time.perf_counter()
    vitrify.convert(source, to="onnx", checks=[Parity()])
    proof = time.perf_counter() - start
    figures = {"convert": convert, "convert_other": other, "proof": proof}
    # One row takes microseconds: many short rounds, so that what disturbs the machine disturbs few of them.
    for label, count, times, turns in (("one", 1, 25, 40), ("many", len(rows), 1, 2)):
        x = rows[:count]
        given, fed = {a.get_inputs()[0].name: x}, {b.get_inputs()[0].name: feed(x)}
        figures[label], figures[label + "_other"] = interleaved(
            turns * rounds, times, lambda: a.run(None, given), lambda: b.run(None, fed)
        )
    if hasattr(model, "predict_proba"):
        asked = rows[:ASKED]
        truth = model.predict(asked), model.predict_proba(asked)
        figures["wrong"], figures["wrong_other"] = wrong(a, asked, *truth), wrong(b, feed(asked), *truth)
    report(seconds=convert, **figures)
"""

XGBOOST = """
import xgboost as xgb
from onnxmltools import convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 20)).astype(np.float32)
y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
model = xgb.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1).fit(X, y)
def theirs():
    return convert_xgboost(model, initial_types=[("X", FloatTensorType([None, 20]))]).SerializeToString()
compare(model, X[:100], rng.normal(size=(ROWS, 20)).astype(np.float32), theirs, lambda x: x)
"""
LIGHTGBM = """
import lightgbm as lgb
from onnxmltools import convert_lightgbm
from onnxmltools.convert.common.data_types import FloatTensorType
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 20))
y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
model = lgb.LGBMClassifier(n_estimators=100, n_jobs=1, verbose=-1).fit(X, y)
def theirs():
    types = [("X", FloatTensorType([None, 20]))]
    return convert_lightgbm(model, initial_types=types, zipmap=False).SerializeToString()
compare(model, X[:100], rng.normal(size=(ROWS, 20)), theirs, lambda x: x.astype(np.float32))
"""
FOREST = """
from sklearn.ensemble import RandomForestClassifier
from skl2onnx import to_onnx
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 20)).astype(np.float32)
y = (X[:, 0] + X[:, 1] ** 2 > 1).astype(int)
model = RandomForestClassifier(100, max_depth=10, random_state=0).fit(X, y)
def theirs():
    return to_onnx(model, X[:1], options={"zipmap": False}).SerializeToString()
compare(model, X[:100], rng.normal(size=(ROWS, 20)).astype(np.float32), theirs, lambda x: x)
"""
CNN = (
    SMALL_CNN
    + """
X = torch.randn(4, 1, 28, 28)
def theirs():
    import io, contextlib
    stream = io.BytesIO()
    with contextlib.redirect_stdout(io.StringIO()):
        program = torch.onnx.export(
            model, (X,), dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False
        )
    return program.model_proto.SerializeToString()
rows = np.random.default_rng(0).normal(size=(ROWS, 1, 28, 28)).astype(np.float32)
compare(model, X, rows, theirs, lambda x: x)
"""
)

KERAS = """
import os
os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
import contextlib, io, keras, tf2onnx.convert
keras.utils.set_random_seed(0)
layers = keras.layers
model = keras.Sequential([
    keras.Input((28, 28, 1)), layers.Conv2D(8, 3, padding="same", activation="relu"), layers.MaxPooling2D(2),
    layers.Conv2D(16, 3, padding="same", activation="relu"), layers.GlobalAveragePooling2D(), layers.Dense(10),
])
model.export("theirs", verbose=False)
def theirs():
    kept, sys.argv = sys.argv, ["tf2onnx", "--saved-model", "theirs", "--opset", "18", "--output", "theirs.onnx"]
    with contextlib.redirect_stdout(io.StringIO()):
        tf2onnx.convert.main()
    sys.argv = kept
    return Path("theirs.onnx").read_bytes()
rows = np.random.default_rng(0).normal(size=(ROWS, 28, 28, 1)).astype(np.float32)
compare(model, rows[:4], rows, theirs, lambda x: x, via="saved-model")
"""

CASES = {
    "XGBoost, 100 trees": ("onnxmltools", XGBOOST),
    "LightGBM, 100 trees": ("onnxmltools", LIGHTGBM),
    "random forest, 100 trees": ("skl2onnx", FOREST),
    "small CNN": ("torch.onnx", CNN),
    "small Keras CNN, from its saved model": ("tf2onnx", KERAS),
}

with scratch() as folder:
    for name in sys.argv[1:] or CASES:
        peer, code = CASES[name]
        here = Path(folder, name.replace(" ", "-").replace(",", ""))
        here.mkdir()
        figures = child(SHARED + f"ROWS, ASKED = {ROWS}, {ASKED}\n" + code, ROUNDS, folder=here)
        rows = [
            (
                "conversion",
                f"{figures['convert'] * 1e3:.0f} ms",
                f"{figures['convert'] / figures['convert_other']:.2f} x {peer} (target: at most 1.2 x)",
            ),
            ("the proof", f"{figures['proof']:.1f} s", "conversion, parity and commit"),
        ]
        for label, what in (("one", "1 row"), ("many", f"{ROWS:,} rows")):
            ours, other = figures[label], figures[f"{label}_other"]
            value = f"{ours * 1e6:,.0f} µs" if label == "one" else f"{ours * 1e3:.1f} ms"
            rows.append((f"predict {what}", value, f"{ours / other:.2f} x {peer}'s (target: at most 1 x)"))
        if "wrong" in figures:
            other = f"{figures['wrong_other']:,.0f} of {peer}'s: another label, or a probability off by 1e-5 of itself"
            rows.append((f"wrong of {ASKED:,} rows", f"{figures['wrong']:,.0f}", other))
        show(f"{name}: vitrify against {peer} (median of {ROUNDS} rounds, interleaved)", rows)
