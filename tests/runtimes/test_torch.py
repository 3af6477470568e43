from __future__ import annotations

import numpy as np
import pytest
import torch

from vitrify import containers
from vitrify.core.document import Document
from vitrify.core.errors import ModelError, SignatureError, UsageError
from vitrify.core.protocols import Allow
from vitrify.formats.torch_export import TorchExport
from vitrify.runtimes.torch import TorchRuntime


def document_of(model, example, entry=None):
    document = Document(
        schema=1, format="torch-export", runtime="torch", entry=dict(entry or {}), signature=example.signature
    )
    outputs = TorchRuntime().wrap(model, document).run(example.arrays)
    fields = TorchRuntime().describe_outputs(model, outputs, document.entry)
    return document.replace(signature=example.signature.replace(outputs=fields))


@pytest.fixture
def saved(store):
    """Save a module in a real store's stage; return the live session and the opened one."""
    with store.stage() as stage:

        def save(model, native):
            example = containers.example(native)
            written = TorchExport().write(model, stage, example)
            document = document_of(model, example, written.entry)
            runtime = TorchRuntime()
            return runtime.wrap(model, document), runtime.open(stage.files(), document, Allow())

        yield save


class Both(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x, ids):
        hidden = self.drop(self.norm(self.linear(x)))
        return {"hidden": hidden, "best": hidden.argmax(1) + ids}


@pytest.mark.parametrize("rows", [1, 2, 5, 33])
def test_the_opened_program_predicts_what_the_live_module_predicts(rows, saved):
    live, opened = saved(Both(), {"ids": torch.arange(3), "x": torch.randn(3, 4)})
    inputs = {"x": np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32), "ids": np.arange(rows)}
    ours, theirs = opened.run(inputs), live.run(inputs)
    assert list(ours) == ["hidden", "best"]
    for name in ours:
        assert ours[name].dtype == theirs[name].dtype
        assert np.array_equal(ours[name], theirs[name])


def test_output_fields_have_the_types_and_the_batch(saved):
    live, _ = saved(Both(), {"ids": torch.arange(3), "x": torch.randn(3, 4)})
    assert [str(field) for field in live.signature.outputs] == ["hidden: float32[batch, 3]", "best: int64[batch]"]


def test_no_rows_give_no_rows(saved):
    _, opened = saved(Both(), {"ids": torch.arange(3), "x": torch.randn(3, 4)})
    empty = opened.run({"x": np.zeros((0, 4), np.float32), "ids": np.zeros(0, np.int64)})
    assert empty["hidden"].shape == (0, 3)
    assert empty["best"].dtype == np.int64


def test_a_live_module_is_called_in_eval_mode_and_left_in_its_own(saved):
    model = Both()
    model.norm.eval()
    example = containers.example({"ids": torch.arange(3), "x": torch.randn(3, 4)})
    session = TorchRuntime().wrap(model, document_of(model, example))
    first, second = session.run(example.arrays), session.run(example.arrays)
    assert np.array_equal(first["hidden"], second["hidden"])
    assert [module.training for module in model.modules()] == [True, True, False, True]


def test_the_modes_come_back_after_an_error():
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ArithmeticError("on purpose")

    model = Fails()
    example = containers.example(torch.ones(2))
    document = Document(schema=1, format="torch-export", runtime="torch", signature=example.signature)
    with pytest.raises(ModelError, match="on purpose"):
        TorchRuntime().wrap(model, document).run(example.arrays)
    assert model.training


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_every_float_goes_in_and_comes_out_without_loss(dtype, saved):
    _, opened = saved(torch.nn.Identity(), torch.randn(3, 2).to(dtype))
    data = torch.randn(5, 2).to(dtype)
    back = opened.predict(data)["output"]
    assert torch.equal(torch.from_numpy(back).to(dtype), data)
    assert back.dtype == np.dtype({"bfloat16": "float32"}.get(str(dtype)[6:], str(dtype)[6:]))


def test_integers_beyond_float_are_exact(saved):
    _, opened = saved(torch.nn.Identity(), torch.tensor([2**53 + 1, 1]))
    assert opened.predict(torch.tensor([2**62 + 1]))["output"].tolist() == [2**62 + 1]


def test_the_caller_keeps_its_arrays_when_the_module_writes_into_its_input(saved):
    class Writes(torch.nn.Module):
        def forward(self, x):
            return x.add_(1)

    live, opened = saved(Writes(), torch.zeros(3))
    for session in (live, opened):
        data = np.zeros(2, np.float32)
        assert session.run({"x": data})["output"].tolist() == [1.0, 1.0]
        assert data.tolist() == [0.0, 0.0]


def test_nothing_is_recorded_for_gradients():
    seen = []

    class Watches(torch.nn.Module):
        def forward(self, x):
            seen.append(torch.is_grad_enabled())
            return x

    example = containers.example(torch.ones(2))
    document_of(Watches(), example)
    assert seen == [False]


def test_data_that_does_not_fit_is_a_signature_error(saved):
    _, opened = saved(Both(), {"ids": torch.arange(3), "x": torch.randn(3, 4)})
    with pytest.raises(SignatureError):
        opened.run({"x": np.zeros((2, 5), np.float32), "ids": np.arange(2)})
    with pytest.raises(SignatureError):
        opened.run({"x": np.zeros((2, 4), np.float32)})


def test_a_module_without_a_signature_cannot_be_opened():
    with pytest.raises(UsageError, match="signature"):
        TorchRuntime().wrap(Both(), Document(schema=1, format="torch-export", runtime="torch"))
