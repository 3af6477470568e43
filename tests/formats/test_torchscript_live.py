"""TorchScript that is written and read: the same bytes for the same module, and nothing that reaches out unasked."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch

from vitrify.core.errors import UnsupportedModelError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.torchscript import TorchScript
from vitrify.testing.formats import FormatConformance


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.second = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)).relu())


def scripted():
    torch.manual_seed(0)
    return torch.jit.script(Block().eval())


pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class TestTorchScript(FormatConformance):
    format = TorchScript()

    def model(self):
        return scripted()

    def same(self, left, right):
        x = torch.arange(8.0).reshape(2, 4)
        return torch.equal(left(x), right(x))


def written(model, files_and_sink):
    place = files_and_sink()
    return TorchScript().write(model, place.sink, None), place


def test_no_path_of_the_machine_is_written(files_and_sink):
    _, place = written(scripted(), files_and_sink)
    with zipfile.ZipFile(io.BytesIO(place.files().read("model.pt"))) as archive:
        assert not [name for name in archive.namelist() if "debug" in name or "serialization_id" in name]
        everything = b"".join(archive.read(name) for name in archive.namelist())
    assert str(Path(__file__).parent).encode() not in everything


def test_classes_are_counted_anew_however_many_the_process_has_seen(files_and_sink):
    torch.jit.script(torch.nn.Linear(9, 9))
    before = [written(scripted(), files_and_sink)[1].files().read("model.pt")]
    for size in range(3):
        torch.jit.script(torch.nn.Sequential(torch.nn.Linear(9, 9), torch.nn.Linear(9, size + 1)))
    before.append(written(scripted(), files_and_sink)[1].files().read("model.pt"))
    assert before[0] == before[1]


def test_a_module_in_training_mode_is_saved_in_eval_mode_and_left_as_it_was(files_and_sink):
    model = torch.jit.script(Block())
    result, place = written(model, files_and_sink)
    assert "eval mode" in result.notes[0]
    assert model.training
    back = TorchScript().read(place.files(), result.entry, Allow())
    assert not any(part.training for part in back.modules())


def test_a_frozen_module_has_no_mode_and_is_saved_all_the_same(files_and_sink):
    model = torch.jit.freeze(scripted())
    result, place = written(model, files_and_sink)
    x = torch.ones(3, 4)
    assert torch.equal(TorchScript().read(place.files(), result.entry, Allow())(x), model(x))


def test_an_operator_that_reaches_out_needs_permission_by_its_name(files_and_sink):
    class Saves(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.ops.aten.save(x, "somewhere")
            return x

    result, place = written(torch.jit.script(Saves()), files_and_sink)
    assert result.names == ("aten::save",)
    with pytest.raises(UntrustedCodeError):
        TorchScript().read(place.files(), result.entry, Allow())
    assert TorchScript().read(place.files(), result.entry, Allow.of(["aten::save"])) is not None


def test_a_module_that_was_never_scripted_is_refused(files_and_sink):
    with pytest.raises(UnsupportedModelError, match="script"):
        written(Block(), files_and_sink)
