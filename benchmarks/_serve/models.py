"""The models that are served: trained here, saved and converted by vitrify, so that everybody serves one ONNX file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from _measure import SMALL_CNN, child

if TYPE_CHECKING:
    from pathlib import Path

SHARED = """
import warnings; warnings.filterwarnings("ignore")
import numpy as np, vitrify
from vitrify.checks.parity import Parity
rng = np.random.default_rng(0)
def keep(name, model, example):
    source = vitrify.save(model, name + "-source", example=example)
    made = vitrify.convert(source, to="onnx", checks=[Parity()], name=name)
    folder = Path(name); folder.mkdir()
    (folder / "model.onnx").write_bytes(made.subject().files.read("model.onnx"))
    import onnxruntime as ort
    session = ort.InferenceSession(folder / "model.onnx")
    types = {"tensor(float)": "FP32", "tensor(int64)": "INT64", "tensor(double)": "FP64"}
    port = lambda one: {"name": one.name, "datatype": types[one.type], "shape": list(one.shape[1:])}
    spec = {"name": name, "input": port(session.get_inputs()[0]), "outputs": list(map(port, session.get_outputs()))}
    (folder / "model.json").write_text(json.dumps(spec))
    np.save(folder / "row.npy", np.asarray(example[:1]))
    report(seconds=0)
"""
XGBOOST = """
import xgboost as xgb
X = rng.normal(size=(600, 4)).astype(np.float32)
y = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])
keep("xgboost", xgb.XGBClassifier(n_estimators=100, n_jobs=1).fit(X, y), X[:8])
"""
CNN = (
    SMALL_CNN
    + """
keep("cnn", model, rng.normal(size=(8, 1, 28, 28)).astype(np.float32))
"""
)
CODE = {"xgboost": XGBOOST, "cnn": CNN}
WHAT = {"xgboost": "XGBoost, 100 rounds x 3 classes, 4 features", "cnn": "small CNN, 1 x 28 x 28"}


@dataclass(frozen=True)
class Model:
    """One model: its name, and the folder with ``model.onnx``, ``model.json`` (its ports) and ``row.npy``."""

    name: str
    folder: Path

    @property
    def spec(self) -> dict:
        return json.loads((self.folder / "model.json").read_text())


def make(name: str, folder: Path) -> Model:
    """Train, save and convert one; its artifact lies in the store at ``folder / "home"`` under the same name."""
    child(SHARED + CODE[name], folder=folder)
    return Model(name, folder / name)
