"""From JAX to TensorFlow: one call of XLA, which answers what JAX answers for every number of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import vitrify
from vitrify.core.document import SCHEMA, Document
from vitrify.core.protocols import Subject
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert import jax_tensorflow

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
        (jax.jit(lambda x: (jax.lax.top_k(x, 2), jnp.sinh(x), jax.scipy.special.erf(x))), X),
    ],
    ids=["double", "scan", "composites"],
)
def test_each_kind_is_proven(model, example):
    vitrify.save(model, "source", example=example)
    assert vitrify.convert("source", to="saved-model").document.runtime == "tensorflow"


def test_what_xla_says_only_when_it_is_called_is_one_finding_before_the_work(capfd):
    spec = jax.ShapeDtypeStruct((7, 4), np.float32)
    check = export.DisabledSafetyCheck.custom_call("nobody")
    exported = export.export(jax.jit(jax.ffi.ffi_call("nobody", spec)), disabled_checks=[check])(spec)
    function, names = jax_tensorflow._traced(exported)
    (port,) = names["inputs"]
    document = Document(schema=SCHEMA, format="jax-export", runtime="jax", entry={"inputs": {"X": port}})
    (finding,) = jax_tensorflow._tried(
        function, names["inputs"], Subject(files=None, document=document, golden={"X": X})
    )
    assert "nobody" in finding.message
    assert "--via onnx" in finding.remedy
    assert capfd.readouterr().err == ""


def test_an_operation_that_xla_does_not_know_is_named():
    said = "{{node x}} Cannot deserialize: m.py:9:56: error: unregistered operation 'vhlo.composite_v2' found in (...)"
    assert jax_tensorflow._explained(said).place == "composite"
    said = "{{node x}} Cannot compile: loc(\"f\"(#1)): 'stablehlo.sort' op has dynamic\nshapes\nnote: see (...)"
    assert jax_tensorflow._explained(said).message.endswith("Cannot compile: 'stablehlo.sort' op has dynamic shapes")
