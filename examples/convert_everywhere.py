"""One boosted model in several forms: each proven against the source and timed, the fastest one kept."""

import numpy as np
import xgboost

import vitrify

X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
model = xgboost.XGBRegressor(n_estimators=20, max_depth=4).fit(X, X[:, 0] * X[:, 1])
source = vitrify.save(model, "product", example=X)

forms = vitrify.matrix(source, targets=["onnx", "ort", "pfa"])
for form in forms:
    print(f"{form.target:8} {form.verdict:8} {form.size:>7} bytes {form.one_ms:8.3f} ms a row {form.why}")

fastest = min((form for form in forms if form.verdict == "proven"), key=lambda form: form.one_ms)
kept = vitrify.convert(source, fastest.target)
np.testing.assert_allclose(kept.session().predict(X)["prediction"], model.predict(X), rtol=1e-5)
print(kept)
