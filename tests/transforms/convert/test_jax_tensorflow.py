"""From JAX to TensorFlow: one call of XLA, which answers what JAX answers for every number of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vitrify
from vitrify.testing.transforms import TransformConformance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 4)).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)


class TestJaxToSavedModel(TransformConformance):
    name = "jax-export-to-saved-model"

    def model(self):
        return jax.jit(lambda x: {"y": jax.nn.softmax(x @ W), "top": jnp.argmax(x, axis=1)})

    def example(self):
        return X

    def impossible(self):
        return jax.jit(lambda x: jnp.linalg.inv(x.T @ x + jnp.eye(4)) + jnp.linalg.cholesky(x.T @ x + jnp.eye(4)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "example"),
    [
        (jax.jit(lambda x: jnp.exp(x) / 3), X.astype(np.float64)),
        (
            jax.jit(lambda a, b: (a * 2, jax.lax.scan(lambda c, row: (c + row, c), jnp.zeros(4), a)[0])),
            {"b": X, "a": X},
        ),
    ],
    ids=["double", "scan"],
)
def test_each_kind_is_proven(model, example):
    vitrify.save(model, "source", example=example)
    assert vitrify.convert("source", to="saved-model").document.runtime == "tensorflow"
