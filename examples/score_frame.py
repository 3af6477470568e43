"""A fitted pipeline becomes a sealed artifact and a proven ONNX twin; both score a frame."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import vitrify

rng = np.random.default_rng(0)
frame = pd.DataFrame({"age": rng.integers(18, 90, 500), "income": rng.lognormal(10, 1, 500)})
bought = np.where(frame["age"] * 800 + frame["income"] > 60_000, "yes", "no")
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, bought)

artifact = vitrify.save(model, "buyers", example=frame)
twin = vitrify.convert(artifact)
native, converted = artifact.session().predict(frame), twin.session().predict(frame)
assert (native["label"] == converted["label"]).all()
print(artifact, twin, np.abs(native["probability"] - converted["probability"]).max(), sep="\n")
