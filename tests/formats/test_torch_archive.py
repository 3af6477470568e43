from __future__ import annotations

import json
import zipfile

import pytest
import torch

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats.torch_export import TorchExport
from vitrify.inspection.identify import files_at


class Norm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.linear(x))


def archive(model, files_and_sink, change=None):
    """Save a module as PyTorch does, perhaps with members changed."""
    place = files_and_sink()
    program = torch.export.export(model.eval(), (torch.randn(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},))
    with place.sink.path("model.pt2", "weight") as path:
        torch.export.save(program, path)
        if change:
            with zipfile.ZipFile(path) as old:
                members = {info.filename: old.read(info) for info in old.infolist()}
            change(members)
            with zipfile.ZipFile(path, "w") as new:
                for name, data in members.items():
                    new.writestr(name, data)
    return place.files()


def member(members, ending):
    return next(name for name in members if name.endswith(ending))


def test_an_archive_of_pytorch_is_read_without_unpickling(files_and_sink, monkeypatch):
    model = Norm()
    files = archive(model, files_and_sink)
    assert TorchExport().detect(files_at(files.path("model.pt2")))
    monkeypatch.setattr(torch, "load", None)
    back = TorchExport().read(files, {"file": "model.pt2"}, Allow())
    data = torch.randn(5, 4)
    assert torch.equal(back(data), model(data))
    described = TorchExport().describe(files, {"file": "model.pt2"})
    [port] = described["inputs"]
    assert (port["name"], port["type"], port["shape"][1]) == ("x", "float32", 4)
    assert (len(described["tensors"]), described["bytes"], described["tied"]) == (7, 152, {})


def test_ties_in_an_archive_stay(files_and_sink):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    model[1].weight = model[0].weight
    back = TorchExport().read(archive(model, files_and_sink), {"file": "model.pt2"}, Allow())
    assert back.get_parameter("0.weight") is back.get_parameter("1.weight")


def edit_config(edit):
    def change(members):
        name = member(members, "model_weights_config.json")
        config = json.loads(members[name])
        edit(config["config"]["linear.weight"])
        members[name] = json.dumps(config).encode()

    return change


BROKEN = {
    "a member that is absent": edit_config(lambda about: about.update(path_name="weight_99")),
    "a member elsewhere": edit_config(lambda about: about.update(path_name="../../models/model.json")),
    "a shape beyond the data": edit_config(lambda about: about["tensor_meta"].update(sizes=[{"as_int": 10**9}] * 2)),
    "an offset beyond the data": edit_config(lambda about: about["tensor_meta"]["storage_offset"].update(as_int=99)),
    "an unknown type": edit_config(lambda about: about["tensor_meta"].update(dtype=99)),
    "no graph": lambda members: members.pop(member(members, "models/model.json")),
    "two graphs": lambda members: members.update(
        {member(members, "models/model.json").replace("model.json", "b.json"): b""}
    ),
    "a configuration that is no JSON": lambda members: members.update({member(members, "weights_config.json"): b"{"}),
    "a graph that is no JSON": lambda members: members.update({member(members, "models/model.json"): b"{"}),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_broken_archive_is_malformed(change, files_and_sink):
    files = archive(Norm(), files_and_sink, change)
    with pytest.raises(MalformedError, match=r"model\.pt2"):
        TorchExport().read(files, {"file": "model.pt2"}, Allow())


def test_a_compressed_archive_is_malformed(files_and_sink):
    files = archive(Norm(), files_and_sink)
    other = files_and_sink()
    with (
        zipfile.ZipFile(files.path("model.pt2")) as old,
        other.sink.path("model.pt2", "weight") as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    assert TorchExport().detect(files_at(path))
    with pytest.raises(MalformedError, match="compressed"):
        TorchExport().read(other.files(), {"file": "model.pt2"}, Allow())


def test_everything_pickled_in_an_archive_is_listed_and_never_opened(files_and_sink):
    def change(members):
        edit_config(lambda about: about.update(use_pickle=True))(members)
        members[member(members, "weights/weight_0").replace("weight_0", "model.pt")] = b"cos\nsystem\n(S'id'\ntR."

    files = archive(Norm(), files_and_sink, change)
    with pytest.raises(UnsupportedModelError, match="unpickling runs code") as caught:
        TorchExport().read(files, {"file": "model.pt2"}, Allow())
    assert len(caught.value.problems) == 2
