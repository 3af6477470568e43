"""IREE runs StableHLO as any runtime runs its format."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax import export

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.formats.stablehlo import StableHlo, StableHloModule
from vitrify.runtimes.iree import Iree, ports
from vitrify.testing.formats import FormatConformance
from vitrify.testing.runtimes import RuntimeConformance

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def module():
    (rows,) = export.symbolic_shape("n")
    exported = export.export(jax.jit(jax.nn.softmax))(jax.ShapeDtypeStruct((rows, 4), "float32"))
    return StableHloModule(exported.mlir_module_serialized)


class TestIree(RuntimeConformance):
    runtime, format = Iree(), StableHlo()

    def model(self):
        return module()

    def example(self):
        return X


class TestStableHlo(FormatConformance):
    format = StableHlo()

    def model(self):
        return module()

    def same(self, left, right):
        from vitrify.formats._stablehlo.live import without_places

        return without_places(left.data) == without_places(right.data)


def test_arrays_that_numpy_does_not_have_are_refused():
    text = "func.func @main(%a: tensor<2xbf16>) -> tensor<2xbf16> { return %a : tensor<2xbf16> }"
    with pytest.raises(UnsupportedModelError, match="bf16"):
        ports(StableHloModule(text.encode()))


def test_a_module_that_nobody_can_call_is_malformed():
    text = "func.func private @helper(%a: tensor<2xf32>) -> tensor<2xf32> { return %a : tensor<2xf32> }"
    with pytest.raises(MalformedError, match="no function"):
        ports(StableHloModule(text.encode()))
