"""From JAX to StableHLO: IREE answers what JAX answers, for every number of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import vitrify
from vitrify.core.attestation import PARITY
from vitrify.core.errors import UnsupportedModelError
from vitrify.testing.transforms import TransformConformance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 4)).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)


class TestJaxToStableHlo(TransformConformance):
    name = "jax-export-to-stablehlo"

    def model(self):
        return jax.jit(lambda x: jax.nn.softmax(jax.nn.gelu(x @ W, approximate=False)))

    def example(self):
        return X

    def impossible(self):
        return jax.jit(lambda x: jnp.linalg.inv(x.T @ x + jnp.eye(4)) + jnp.linalg.cholesky(x.T @ x + jnp.eye(4)))


class Conv(nnx.Module):
    def __init__(self, rngs):
        self.conv = nnx.Conv(1, 3, (2, 2), rngs=rngs)
        self.last = nnx.Linear(12, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.conv(x)).reshape(x.shape[0], -1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "example"),
    [
        (Conv(nnx.Rngs(0)), RNG.normal(size=(3, 2, 2, 1)).astype(np.float32)),
        (jax.jit(lambda x: (x[:, ::-1], jnp.argmax(x, axis=1))), X),
        (jax.jit(lambda x: jnp.log1p(jnp.exp(x)) * x), X.astype(np.float64)),
        (jax.jit(lambda a, b: {"y": a * 2, "z": (a > 0)}), {"b": X, "a": X}),
    ],
)
def test_each_kind_is_proven(model, example):
    source = vitrify.save(model, "source", example=example)
    result = vitrify.convert(source, to="stablehlo")
    assert result.document.runtime == "iree"
    assert result.document.signature == source.signature


@pytest.mark.slow
def test_a_pool_that_jax_answers_otherwise_in_a_large_batch_is_proven_but_for_its_nan():
    """In large batches XLA loses NaN in a maximum inside a window's loop, its own or that of a relu before it."""
    model = jax.jit(lambda x: nnx.max_pool(nnx.relu(x), (2, 2)).reshape(x.shape[0], -1))
    hole = np.full((1250, 2, 2, 1), np.nan, np.float32)
    few, many = (np.isnan(np.asarray(model(hole[:rows]))).all() for rows in (4, 1250))
    if few == many:
        pytest.skip("this version of JAX agrees with itself")
    source = vitrify.save(model, "source", example=RNG.normal(size=(3, 2, 2, 1)).astype(np.float32))
    result = vitrify.convert(source, to="stablehlo")
    reports = next(one.predicate for one in result.attestations if one.predicate_type == PARITY)["reports"]
    assert sum(output["unanswered"] for output in reports[-1]["details"]["outputs"].values()) > 0


def test_a_packed_module_declares_what_it_takes(tmp_path):
    text = """
    func.func @main(%a: tensor<?x2xf32>, %b: tensor<2xf32>) -> tensor<?x2xf32> {
      %n = stablehlo.get_dimension_size %a, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
      %r = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %two = stablehlo.constant dense<2> : tensor<1xi32>
      %s = stablehlo.concatenate %r, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
      %w = stablehlo.dynamic_broadcast_in_dim %b, %s, dims = [1] : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x2xf32>
      %y = stablehlo.add %a, %w : tensor<?x2xf32>
      return %y : tensor<?x2xf32>
    }
    """
    (tmp_path / "add.mlir").write_text(text)
    artifact = vitrify.pack(tmp_path / "add.mlir", "add")
    assert [field.shape for field in artifact.signature.inputs] == [("batch", 2), (2,)]
    feeds = {"argument 0": X[:3, :2], "argument 1": np.array([1, 2], np.float32)}
    np.testing.assert_array_equal(vitrify.load("add").run(feeds)["result 0"], X[:3, :2] + np.float32([1, 2]))


def test_what_iree_cannot_compile_is_a_typed_error():
    vitrify.save(jax.jit(lambda x: jax.scipy.linalg.solve_triangular(jnp.eye(4), x.T)), "triangular", example=X)
    with pytest.raises(UnsupportedModelError):
        vitrify.convert("triangular", to="stablehlo")
