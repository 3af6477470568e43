from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import vitrify
from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.formats.torchscript import TorchScript
from vitrify.runtimes.torchscript import TorchScriptRuntime, remembers
from vitrify.testing.runtimes import RuntimeConformance

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor, scale: torch.Tensor):
        return {"scaled": self.norm(x) * scale.unsqueeze(1), "best": x.argmax(1)}


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x + self.seen


class Adds(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return x + self.seen


class TestTorchScriptRuntime(RuntimeConformance):
    runtime = TorchScriptRuntime()
    format = TorchScript()

    def model(self):
        return torch.jit.script(Two().eval())

    def example(self):
        rng = np.random.default_rng(0)
        return {"x": torch.tensor(rng.normal(size=(4, 3)), dtype=torch.float32), "scale": torch.ones(4)}


@pytest.mark.parametrize("cls", [Counter, Adds])
def test_a_module_that_remembers_goes_on_and_can_be_reset_and_the_users_own_stays_as_it_was(cls, store):
    model = torch.jit.script(cls().eval())
    assert remembers(model)
    vitrify.save(model, "counter", example=torch.zeros(2, 1))
    assert float(torch.as_tensor(model.seen)) == 0
    session = vitrify.load("counter")
    x = np.zeros((1, 1), np.float32)
    assert [session.predict(x)["output"].item() for _ in range(3)] == [1, 2, 3]
    session.reset()
    assert session.predict(x)["output"].item() == 1


def test_statistics_that_only_training_writes_are_no_memory():
    assert not remembers(torch.jit.script(Two().eval()))
    assert not remembers(torch.jit.trace(torch.nn.Linear(2, 2).eval(), torch.ones(1, 2)))


def test_sizes_that_may_change_are_found_by_calling_the_module(store):
    class Shapes(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x.mean(1), torch.cat([x, x], 1), x[:1, 0]

    saved = vitrify.save(torch.jit.script(Shapes()), "s", example=torch.ones(2, 3), dynamic={"x": {1: "length"}})
    shapes = [field.shape for field in saved.signature.outputs]
    assert shapes == [("batch",), ("batch", "length"), (1,)]


def test_a_batch_that_was_baked_in_is_refused_with_the_way_out(store):
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor):
            return x.reshape(3, 2)

    with pytest.raises(UnsupportedModelError, match="'batch' only") as caught:
        vitrify.save(torch.jit.script(Fixed()), "f", example=torch.ones(3, 2))
    assert "dynamic=" in caught.value.remedy
    saved = vitrify.save(torch.jit.script(Fixed()), "f", example=torch.ones(3, 2), dynamic={"x": {0: 3}})
    assert saved.signature.outputs[0].shape == (3, 2)


def test_a_module_that_rejects_its_example_is_the_modules_own_error(store):
    with pytest.raises(ModelError):
        vitrify.save(torch.jit.script(torch.nn.Linear(3, 1)), "l", example=torch.ones(2, 5))


@pytest.mark.slow
def test_a_published_voice_detector_hears_the_same_and_forgets_on_reset(store):
    home = importlib.util.find_spec("silero_vad")
    path = Path(home.submodule_search_locations[0], "data", "silero_vad.jit")
    example = {"x": torch.linspace(-1, 1, 512).reshape(1, 512), "sr": 16000}
    saved = vitrify.pack(path, "voice", example=example, dynamic={"x": {0: 1}})
    assert [str(field) for field in saved.signature.inputs] == ["x: float32[1, 512]", "sr: int64[]"]
    theirs = torch.jit.load(path)
    session = vitrify.load("voice")
    for _ in range(3):
        ours = session.predict(example)["output"]
        with torch.no_grad():
            assert ours == pytest.approx(theirs(example["x"], 16000).numpy(), abs=1e-7)
    first = vitrify.load("voice").predict(example)["output"]
    session.reset()
    assert np.array_equal(session.predict(example)["output"], first)
