"""The format of JAX's exported functions keeps the promises of all formats that are written and read."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from vitrify import containers
from vitrify.core.errors import ModelError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats._jax import ports
from vitrify.formats.jax_export import JaxExport, _foreign
from vitrify.reading.files import HeldFiles
from vitrify.testing.directory import DirectorySink
from vitrify.testing.formats import FormatConformance

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
CALL = """
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.custom_call @somebody_s_own(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


class TestJaxExport(FormatConformance):
    format = JaxExport()

    def model(self):
        return jax.jit(lambda x: {"y": jax.nn.gelu(x), "z": x.sum(axis=1)})

    def example(self):
        return containers.example(X)

    def same(self, left, right):
        results = [one.call(X) if hasattr(one, "call") else one(X) for one in (left, right)]
        return all(np.array_equal(results[0][name], results[1][name]) for name in ("y", "z"))

    def test_the_same_function_from_another_place_gives_the_same_bytes(self, tmp_path):
        contents = []
        for number, source in enumerate(("def f(x): return x * 2", "\n\n\ndef f(x):\n    return x * 2")):
            space = {}
            exec(compile(source, f"/somewhere/{number}.py", "exec"), space)  # a function in another file and line
            (tmp_path / str(number)).mkdir()
            sink = DirectorySink(tmp_path / str(number))
            self.format.write(jax.jit(space["f"]), sink, self.example())
            contents.append(sink.contents())
            assert b"somewhere" not in sink.contents()["model.jax"]
        assert contents[0] == contents[1]


def exported_with(module):
    import dataclasses

    from vitrify.formats._stablehlo.live import without_places

    exported = jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((4,), "float32"))
    return dataclasses.replace(exported, mlir_module_serialized=without_places(module.encode()))


def test_a_call_of_what_is_not_in_it_has_to_be_allowed_by_name():
    data = bytes(exported_with(CALL).serialize())
    files = HeldFiles({"model.jax": memoryview(data)})
    assert _foreign(JaxExport().hazards(files, {"file": "model.jax"})) == {"somebody_s_own"}
    with pytest.raises(UntrustedCodeError, match="somebody_s_own"):
        JaxExport().read(files, {"file": "model.jax"}, Allow())
    assert JaxExport().read(files, {"file": "model.jax"}, Allow.of({"somebody_s_own"})).fun_name


def test_an_example_in_another_form_than_the_exported_function_takes_is_refused():
    exported = jax.export.export(jax.jit(lambda x: x))(jax.ShapeDtypeStruct((3, 4), "float32"))
    with pytest.raises(ModelError, match="takes"):
        ports.names(exported, containers.example((X, X)).signature)
