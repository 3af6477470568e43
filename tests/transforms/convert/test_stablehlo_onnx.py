"""From StableHLO to ONNX: what JAX computes is what the graph computes, for odd values and every number of rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from flax import linen, nnx

import vitrify
from vitrify import containers
from vitrify.core.document import SCHEMA, Document
from vitrify.core.plan import Step
from vitrify.core.protocols import Subject
from vitrify.formats.jax_export import JaxExport
from vitrify.runtimes.jax import Jax
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert.stablehlo_onnx import JaxToOnnx

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 4)).astype(np.float32)
W = RNG.normal(size=(4, 3)).astype(np.float32)
ODD = np.array(
    [[np.nan, 1, -1, 0], [np.inf, -np.inf, 0.5, 1.5], [-0.0, 2.5, -2.5, 1e-20], [3e9, -3e9, 300, -300], [7, 7, -7, 7]],
    np.float32,
)
IMAGES = RNG.normal(size=(3, 6, 6, 2)).astype(np.float32)
STEP = Step(transform="", source="jax-export", target="onnx", fidelity="numeric")
TABLE = jnp.asarray(RNG.normal(size=(9, 5)).astype(np.float32))


def prepared(function, example, memory):
    given = containers.example(example)
    written = JaxExport().write(function, memory, given)
    document = Document(
        schema=SCHEMA, format="jax-export", runtime="jax", entry=written.entry, signature=given.signature
    )
    model = JaxExport().read(memory, written.entry, None or vitrify.core.protocols.Allow())
    outputs = Jax().wrap(model, document).run(given.arrays)
    fields = Jax().describe_outputs(model, outputs, written.entry)
    document = document.replace(signature=given.signature.replace(outputs=fields))
    return Subject(files=memory, document=document, golden=given.arrays), Jax().wrap(model, document)


def agree(function, example, memory, more=()):
    subject, source = prepared(function, example, memory)
    assert JaxToOnnx().problems(subject, STEP) == ()
    sink = type(memory)()
    written = JaxToOnnx().apply(subject, STEP, sink)
    proto = onnx.load_from_string(sink.files["model.onnx"])
    document = subject.document.replace(format="onnx", runtime="onnxruntime", entry=written.entry)
    graph = OnnxRuntime().wrap(proto, document)
    rows = [example, *more]
    for data in rows:
        arrays = containers.to_arrays(data, document.signature)
        for name, want in source.run(arrays).items():
            have = graph.run(arrays)[name]
            assert (have.dtype, have.shape) == (want.dtype, want.shape), name
            rtol = 1e-12 if want.dtype == np.float64 else 2e-5
            np.testing.assert_allclose(have, want, rtol=rtol, atol=rtol if want.dtype.kind == "f" else 0, err_msg=name)
    return proto


ELEMENTWISE = {
    "erf": jax.scipy.special.erf,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "round": lambda x: jnp.round(x) + jnp.floor(x) + jnp.sign(x),
    "finite": jnp.isfinite,
    "log1p": jnp.log1p,
    "expm1": jnp.expm1,
    "softplus": jax.nn.softplus,
    "silu": jax.nn.silu,
    "cbrt": jnp.cbrt,
    "tanh": jnp.tanh,
    "arctan2": lambda x: jnp.arctan2(x, x[:, ::-1]),
    "sort": lambda x: jnp.sort(x, axis=1),
    "sort down": lambda x: jnp.sort(x, axis=1, descending=True),
    "argsort of rows": lambda x: jnp.argsort(x, axis=0),
    "argsort of integers": lambda x: jnp.argsort(jnp.nan_to_num(x).astype(jnp.int32) % 3, axis=1),
    "sort of flags": lambda x: jnp.sort(x > 0, axis=1),
    "median": lambda x: jnp.median(x, axis=1),
    "scan": lambda x: jax.lax.scan(lambda c, column: (c * 0.5 + column, c), x[:, 0] * 0, x.T)[1],
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda at, c: c * 0.5 + x[:, at], x[:, 0] * 0),
    "loop of none": lambda x: jax.lax.while_loop(lambda c: c[1] < 0, lambda c: (c[0] + 1, c[1] + 1), (x, 0))[0],
    "rsqrt": lambda x: jax.lax.rsqrt(jnp.abs(x)),
    "clip": lambda x: jnp.clip(x, -1, 1),
    "bounds": lambda x: jnp.maximum(jnp.minimum(x, 2.0), -x),
    "compare": lambda x: ((x > 0) & (x < 1)) | ~(x == 2),
    "choose": lambda x: jnp.where(x > 0, x, -2 * x),
    "to int": lambda x: x.astype(jnp.int32),
    "to bytes": lambda x: x.astype(jnp.uint8),
    "to flag": lambda x: x.astype(bool),
    "square": lambda x: x**2 + x**3,
    "elu": jax.nn.elu,
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_each_elementwise_function_agrees_on_odd_values(name, memory):
    agree(jax.jit(ELEMENTWISE[name]), X, memory, (ODD, X[:1]))


@pytest.mark.parametrize("name", ["erf", "log1p", "expm1", "cbrt", "tanh", "round", "softplus", "gelu", "to int"])
def test_each_function_agrees_in_double(name, memory):
    agree(jax.jit(ELEMENTWISE[name]), X.astype(np.float64), memory, (ODD.astype(np.float64), X[:1].astype(np.float64)))


INTEGERS = {
    "divide": lambda x: x // 3 + x % 5,
    "by zero": lambda x: jax.lax.div(x, x[:, ::-1]) + jax.lax.rem(x, x[:, ::-1]),
    "bits": lambda x: (x & 7) | (x ^ 3),
    "narrow": lambda x: x.astype(jnp.int8) * jnp.int8(3) - x.astype(jnp.int8),
    "choose": lambda x: jnp.where(x > 1, x.astype(jnp.int16), jnp.int16(5)),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_each_function_of_integers_agrees(name, memory):
    values = np.array([[1, -7, 0, 9], [5, 0, -1, 1000], [-1, 2**31 - 1, -(2**31), 1]], np.int32)
    agree(jax.jit(INTEGERS[name]), values, memory, (values[:1],))


SHAPES = {
    "flatten": lambda x: x.reshape(-1),
    "columns": lambda x: x[:, 1],
    "stride": lambda x: x[:, ::2],
    "flip": lambda x: x[:, ::-1],
    "negative": lambda x: x[:, -1:],
    "take": lambda x: jnp.take(x, jnp.array([0, 2]), axis=1),
    "along": lambda x: jnp.take_along_axis(x, jnp.array([[3, 0]]) + 0 * x[:, :2].astype(int), axis=1),
    "window": lambda x: jax.lax.dynamic_slice_in_dim(x, 1, 2, axis=1),
    "outside": lambda x: jax.lax.dynamic_slice_in_dim(x, 3, 2, axis=1),
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2)), constant_values=5.0),
    "crop": lambda x: jax.lax.pad(x, 0.0, ((0, 0, 0), (-1, 2, 0))),
    "outer": lambda x: jnp.einsum("bi,bj->bij", x, x),
    "batched": lambda x: jnp.einsum("bi,bij->bj", x, jnp.einsum("bi,j->bij", x, jnp.arange(3.0))),
    "product": lambda x: x @ W @ W.T,
    "gram": lambda x: x.T @ x,
    "one hot": lambda x: jax.nn.one_hot(x[:, 0].astype(int), 3),
    "concatenate": lambda x: jnp.concatenate([x, jnp.zeros((x.shape[0], 2)), x[:, :1] * 2], axis=1),
    "stack": lambda x: jnp.stack([x, -x], axis=1).transpose(0, 2, 1),
    "numbers": lambda x: x + jnp.arange(x.shape[0])[:, None],
    "mask": lambda x: jnp.where(jnp.arange(4)[None] < 2, x, 0),
    "update": lambda x: jax.lax.dynamic_update_slice_in_dim(x, x[:, :2] * 2, 1, axis=1),
    "rows": lambda x: jnp.broadcast_to(x.mean(axis=0), x.shape),
    "lower": lambda x: x @ jnp.tril(jnp.ones((4, 4))),
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_form_of_indexing_agrees(name, memory):
    agree(jax.jit(SHAPES[name]), X, memory, (X[:1], X[:3]))


REDUCTIONS = {
    "softmax": jax.nn.softmax,
    "log softmax": jax.nn.log_softmax,
    "logsumexp": lambda x: jax.nn.logsumexp(x, axis=1),
    "largest": lambda x: (jnp.max(x, axis=1), jnp.argmax(x, axis=1), jnp.argmin(x, axis=-1)),
    "smallest": lambda x: (jnp.min(x), jnp.min(x, axis=0)),
    "moments": lambda x: (jnp.mean(x, axis=1), jnp.var(x, axis=1), jnp.prod(x, axis=1)),
    "flags": lambda x: (jnp.any(x > 0, axis=1), jnp.all(x > 0, axis=1), (x > 0).sum(axis=1)),
    "sums": lambda x: (jnp.cumsum(x, axis=1), jnp.cumsum(x[:, ::-1], axis=1)),
    "condition": lambda x: jax.lax.cond(x[0, 0] > 0, lambda: x, lambda: -x),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_each_reduction_agrees_on_odd_values(name, memory):
    odd = ODD if name != "moments" else ODD[4:]
    agree(jax.jit(REDUCTIONS[name]), X, memory, (odd, X[:1]))


def test_the_largest_few_agree(memory):
    agree(jax.jit(lambda x: jax.lax.top_k(x, 2)), X, memory, (ODD[4:], X[:1]))


def test_an_embedding_of_tokens_moves_what_is_out_of_bounds_as_jax_does(memory):
    tokens = np.array([[0, 8, 3], [5, 5, 1]], np.int32)
    out = np.array([[0, 9, -1], [100, -100, 4]], np.int32)
    agree(jax.jit(lambda x: TABLE[x].mean(axis=1)), tokens, memory, (out,))
    agree(jax.jit(lambda x: jnp.take(TABLE, x, axis=0)), tokens, type(memory)(), (out,))


CONVOLUTIONS = {
    "plain": lambda rngs: nnx.Conv(2, 3, (3, 3), rngs=rngs),
    "strided": lambda rngs: nnx.Conv(2, 3, (3, 2), strides=2, padding="VALID", rngs=rngs),
    "dilated": lambda rngs: nnx.Conv(2, 4, (2, 2), kernel_dilation=2, feature_group_count=2, rngs=rngs),
    "transposed": lambda rngs: nnx.ConvTranspose(2, 3, (3, 3), strides=(2, 2), rngs=rngs),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_each_convolution_agrees(name, memory):
    agree(CONVOLUTIONS[name](nnx.Rngs(0)), IMAGES, memory, (IMAGES[:1],))


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_pooling_agrees_and_nan_stays(padding, memory):
    def pools(x):
        return nnx.max_pool(x, (2, 3), (2, 2), padding), nnx.avg_pool(x, (3, 2), (1, 2), padding)

    hole = IMAGES.copy()
    hole[0, 2, 2, 1] = np.nan
    agree(jax.jit(pools), IMAGES, memory, (hole, IMAGES[:1]))


def test_a_transformer_block_agrees_for_every_length(memory):
    class Block(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.LayerNorm()(x + linen.MultiHeadDotProductAttention(num_heads=2)(x))
            return x + linen.Dense(8)(linen.gelu(linen.Dense(16)(x)))

    block = Block()
    x = RNG.normal(size=(2, 5, 8)).astype(np.float32)
    proto = agree(block.bind(block.init(jax.random.key(0), x)), x, memory, (x[:1],))
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


class TestJaxToOnnx(TransformConformance):
    name = "jax-export-to-onnx"

    def model(self):
        return jax.jit(lambda x: {"y": jax.nn.softmax(x @ W), "top": jnp.argmax(x, axis=1)})

    def example(self):
        return X

    def impossible(self):
        def hard(x):
            total, _ = jax.lax.scan(lambda carry, row: (carry + row, carry), jnp.zeros(4), x)
            return total, jnp.linalg.inv(x.T @ x + jnp.eye(4))

        return jax.jit(hard)


@pytest.mark.slow
class TestStableHloToOnnx(TestJaxToOnnx):
    name = "stablehlo-to-onnx"

    @pytest.fixture(autouse=True)
    def through_stablehlo(self, monkeypatch):
        save = vitrify.save

        def chain(model, name, **options):
            source = save(model, name, **options)
            return vitrify.convert(source, to="stablehlo", name=name, checks=())

        monkeypatch.setattr(vitrify, "save", chain)

    def impossible(self):
        return None
