"""Export on one machine, import on another, and ask there whether it still is the same model."""

from pathlib import Path

import lightgbm as lgb
import numpy as np

import vitrify
from vitrify import stores
from vitrify.stores.oci_layout import OciLayout

X = np.random.default_rng(0).normal(size=(300, 4))
model = lgb.LGBMRegressor(n_estimators=20, verbose=-1).fit(X, X[:, 0] ** 2)

here = vitrify.save(model, "squares", example=X)
stores.export(here.store, here.digest, Path("squares.vit"))

there = OciLayout(Path("another-machine"))
assert stores.import_(there, Path("squares.vit")) == here.digest
report = vitrify.verify("squares", store=there)
assert report.passed
print(report)
