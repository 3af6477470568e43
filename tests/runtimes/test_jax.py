"""JAX: what a live function answers is what its exported form answers, whatever it is made of."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from jax import export

import vitrify
from vitrify.core.errors import ModelError, SignatureError, UnsupportedModelError, UsageError
from vitrify.core.signature import BATCH
from vitrify.formats.jax_export import JaxExport
from vitrify.runtimes.jax import Jax
from vitrify.testing.runtimes import RuntimeConformance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype(np.float32)
W = RNG.normal(size=(3, 4)).astype(np.float32)


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.gelu(self.norm(self.first(x)))))


class Dense(linen.Module):
    @linen.compact
    def __call__(self, x):
        return linen.Dense(2)(linen.relu(linen.Dense(5)(x)))


@jax.jit
def softmax(x):
    return jax.nn.softmax(x @ W)


class TestJax(RuntimeConformance):
    runtime, format = Jax(), JaxExport()

    def model(self):
        return softmax

    def example(self):
        return X


def bound():
    module = Dense()
    return module.bind(module.init(jax.random.key(0), X))


def mlp():
    return eqx.filter_vmap(eqx.nn.MLP(3, 2, 8, 2, key=jax.random.key(0)))


MODELS = {"jit": lambda: softmax, "nnx": lambda: Net(nnx.Rngs(0)), "linen": bound, "equinox": mlp}


@pytest.mark.parametrize("name", MODELS)
def test_each_kind_of_model_is_saved_and_predicts_for_every_number_of_rows(name):
    artifact = vitrify.save(MODELS[name](), name, example=X)
    assert artifact.document.format == "jax-export"
    assert artifact.signature.outputs[0].shape[0] == BATCH
    session = vitrify.load(name)
    whole = session.run({"X": X})["output"]
    for rows in (1, 2, 5):
        np.testing.assert_allclose(session.run({"X": X[:rows]})["output"], whole[:rows], rtol=2e-6)


def test_a_module_in_training_mode_is_exported_as_it_predicts_and_stays_as_it_was():
    model = Net(nnx.Rngs(0))
    artifact = vitrify.save(model, "net", example=X)
    assert not model.drop.deterministic
    assert any("eval mode" in note for note in artifact.document.notes)
    first, second = (vitrify.load("net").run({"X": X})["output"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_plain_function_is_exported_when_the_format_is_named():
    artifact = vitrify.save(lambda x: jnp.sin(x) + 0, "sine", example=X, format="jax-export")
    assert artifact.document.runtime == "jax"
    np.testing.assert_allclose(vitrify.load("sine").run({"X": X})["output"], np.sin(X), rtol=1e-6)


def test_doubles_stay_doubles_and_the_process_keeps_its_setting():
    x = RNG.normal(size=(4, 3))
    vitrify.save(jax.jit(jnp.exp), "wide", example=x)
    given = vitrify.load("wide").run({"X": x})["output"]
    assert given.dtype == np.float64
    np.testing.assert_allclose(given, np.exp(x), rtol=1e-14)
    assert not jax.config.jax_enable_x64


def test_dicts_and_tuples_go_by_name_and_position_and_answers_keep_their_names():
    function = jax.jit(lambda b, a: {"sum": a + b, "parts": [a * 2, b.sum(axis=1)]})
    vitrify.save(function, "named", example={"b": X, "a": X + 1})
    given = vitrify.load("named").run({"b": X, "a": X + 1})
    assert set(given) == {"sum", "parts_0", "parts_1"}
    np.testing.assert_allclose(given["sum"], 2 * X + 1, rtol=1e-6)
    vitrify.save(jax.jit(lambda a, b: (a - b, a)), "placed", example=(X, X + 1))
    given = vitrify.load("placed").run({"input_0": X, "input_1": X + 1})
    np.testing.assert_allclose(given["output_0"], -np.ones_like(X), rtol=1e-5)


def test_an_exported_function_says_itself_what_it_takes():
    (size,) = export.symbolic_shape("n")
    exported = export.export(softmax)(jax.ShapeDtypeStruct((size, 3), "float32"))
    artifact = vitrify.save(exported, "declared")
    assert [str(field) for field in artifact.signature.inputs] == ["input_0: float32[batch, 3]"]
    assert [str(field) for field in artifact.signature.outputs] == ["output: float32[batch, 4]"]
    expected = np.asarray(softmax(X))
    np.testing.assert_array_equal(vitrify.load("declared").run({"input_0": X})["output"], expected)


def test_a_packed_file_needs_no_example(tmp_path):
    (size,) = export.symbolic_shape("n")
    exported = export.export(softmax)(jax.ShapeDtypeStruct((size, 3), "float32"))
    (tmp_path / "softmax.bin").write_bytes(exported.serialize())
    artifact = vitrify.pack(tmp_path / "softmax.bin", "packed")
    assert artifact.document.runtime == "jax"
    assert vitrify.load("packed").run({"input_0": X})["output"].shape == (7, 4)


def test_tokens_of_64_bits_are_taken_where_they_fit_and_refused_where_not():
    table = RNG.normal(size=(9, 2)).astype(np.float32)
    vitrify.save(jax.jit(lambda x: jnp.take(table, x, axis=0)), "tokens", example=np.array([[0, 3], [8, 1]]))
    session = vitrify.load("tokens")
    assert session.run({"X": np.array([[1, 2]])})["output"].shape == (1, 2, 2)
    with pytest.raises(SignatureError, match="int32"):
        session.run({"X": np.array([[1, 2**40]])})


@pytest.mark.parametrize(
    ("model", "example", "error", "message"),
    [
        (jax.jit(lambda x: x @ np.ones((5, 2))), X, ModelError, "cannot trace"),
        (jax.jit(lambda x: x if x.shape[0] > 3 else -x), X, UnsupportedModelError, "every size"),
        (Dense(), X, UnsupportedModelError, "without variables"),
        (softmax, np.array(["a"]), UnsupportedModelError, "string"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(model, example, error, message):
    with pytest.raises(error, match=message) as caught:
        vitrify.save(model, "refused", example=example)
    assert caught.value.remedy


def test_a_function_that_calls_back_into_python_is_refused():
    def back(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    with pytest.raises(UnsupportedModelError, match="export"):
        vitrify.save(jax.jit(back), "back", example=X)


def test_a_live_function_needs_an_example():
    with pytest.raises(UsageError, match="example"):
        vitrify.save(softmax, "none")
