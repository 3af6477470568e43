"""A pipeline with a 100-tree forest: saved and loaded, against joblib and MLflow's default save_model/load_model."""

from __future__ import annotations

from pathlib import Path

from _measure import child, interleaved, scratch, show

ROUNDS = 3

MODEL = """
import joblib
model, X = joblib.load(sys.argv[1])
"""
TRAIN = """
import joblib
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
X, y = make_classification(5000, 20, random_state=0)
model = make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)).fit(X, y)
joblib.dump((model, X[:100]), sys.argv[1])
report()
"""
OURS_SAVE = """
start = time.perf_counter()
import vitrify
artifact = vitrify.save(model, "forest", example=X)
total = time.perf_counter() - start
trial = next(a.predicate["seconds"] for a in artifact.attestations if ":trial:" in a.predicate_type)
report(seconds=total - trial, trial=trial, bytes=artifact.size)
"""
OURS_LOAD = """
import numpy
X = numpy.zeros((100, 20))
start = time.perf_counter()
import vitrify
session = vitrify.load("forest:latest")
session.predict(X)
report(seconds=time.perf_counter() - start)
"""
MLFLOW_SAVE = """
import shutil
shutil.rmtree("mlflow-model", ignore_errors=True)
start = time.perf_counter()
import mlflow.sklearn
# Its default format refuses its own trees unless they are named.
mlflow.sklearn.save_model(model, "mlflow-model", input_example=X, skops_trusted_types=["sklearn.tree._tree.Tree"])
report(seconds=time.perf_counter() - start)
"""
MLFLOW_LOAD = """
import numpy
X = numpy.zeros((100, 20))
start = time.perf_counter()
import mlflow.sklearn
mlflow.sklearn.load_model("mlflow-model").predict(X)
report(seconds=time.perf_counter() - start)
"""
JOBLIB_SAVE = """
start = time.perf_counter()
joblib.dump(model, "model.joblib")
report(seconds=time.perf_counter() - start)
"""
JOBLIB_LOAD = """
import numpy
X = numpy.zeros((100, 20))
start = time.perf_counter()
import joblib
joblib.load("model.joblib").predict(X)
report(seconds=time.perf_counter() - start)
"""

with scratch() as folder:
    here = Path(folder)
    pickled = here / "trained.joblib"
    child(TRAIN, pickled, folder=here)
    saves = interleaved(
        ROUNDS,
        lambda: child(MODEL + OURS_SAVE, pickled, folder=here),
        lambda: child(MODEL + MLFLOW_SAVE, pickled, folder=here),
        lambda: child(MODEL + JOBLIB_SAVE, pickled, folder=here),
    )
    loads = interleaved(
        ROUNDS,
        lambda: child(OURS_LOAD, folder=here),
        lambda: child(MLFLOW_LOAD, folder=here),
        lambda: child(JOBLIB_LOAD, folder=here),
    )

ours, mlflow, joblib = (figures["seconds"] for figures in saves)
ours_load, mlflow_load, joblib_load = (figures["seconds"] for figures in loads)
show(
    f"A pipeline with a 100-tree forest, imports included (median of {ROUNDS} processes, interleaved)",
    [
        ("save: vitrify", f"{ours:.2f} s", f"and {saves[0]['trial']:.2f} s for the clean-process trial"),
        ("save: mlflow", f"{mlflow:.2f} s", f"{mlflow / ours:.1f} x ours (target: at least 5 x)"),
        ("save: joblib.dump", f"{joblib:.2f} s", f"{joblib / ours:.2f} x ours; no signature, hash, trial or fsync"),
        ("load: vitrify", f"{ours_load:.2f} s", "every byte verified, no pickle"),
        ("load: mlflow", f"{mlflow_load:.2f} s", f"{mlflow_load / ours_load:.1f} x ours (target: at least 1 x)"),
        ("load: joblib.load", f"{joblib_load:.2f} s", f"{joblib_load / ours_load:.2f} x ours; runs pickle"),
    ],
)
