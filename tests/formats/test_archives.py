"""ZIP, TAR and 7z files of which nothing more is known, compiled packages, and TorchServe's archives."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import archives, torch_files

from vitrify.core.errors import MalformedError, VitrifyError
from vitrify.formats.aoti import Aoti
from vitrify.formats.seven_zip import SevenZip
from vitrify.formats.skops import Skops
from vitrify.formats.tar import Tar
from vitrify.formats.torch_export import TorchExport
from vitrify.formats.torchserve import MANIFEST, TorchServe
from vitrify.formats.zip import Zip
from vitrify.inspection.scan import scan_files
from vitrify.reading.files import HeldFiles

ENTRY = {"file": "a"}


def held(data):
    return HeldFiles({"a": memoryview(data)})


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize(
    ("form", "pack"), [(Zip(), torch_files.zipped), (Tar(), torch_files.tarred)], ids=["zip", "tar"]
)
def test_an_archive_lists_its_members_and_hands_them_on(form, pack):
    data = pack(archives.MEMBERS)
    assert form.detect(held(data))
    described = form.describe(held(data), ENTRY)
    sizes = {name: len(content) for name, content in archives.MEMBERS.items()}
    assert {one["name"]: one["bytes"] for one in described["members"]} == sizes
    assert described["bytes"] == sum(sizes.values())
    parts = dict(form.parts(held(data), ENTRY))
    assert list(parts) == ["a: notes.txt", "a: folder/table.csv"]  # not the empty one
    assert bytes(parts["a: notes.txt"].map("notes.txt")) == archives.MEMBERS["notes.txt"]
    assert list(form.hazards(held(data), ENTRY)) == []
    assert not form.detect(held(b"neither"))


def test_a_tar_file_that_ends_in_a_zip_file_is_one_thing():
    data = torch_files.tarred({"last.zip": torch_files.zipped(archives.MEMBERS)})
    assert Tar().detect(held(data))
    assert not Zip().detect(held(data))
    assert scan_files(held(data)).verdict == "clean"
    assert Zip().detect(held(data[:1024] + torch_files.zipped(archives.MEMBERS)))


@pytest.mark.parametrize("pack", [torch_files.zipped, torch_files.tarred], ids=["zip", "tar"])
def test_a_payload_is_found_however_deep_it_lies(pack, tmp_path):
    data = pickle.dumps(Payload(tmp_path / "marker"), 2)
    for _ in range(3):
        data = pack({"inner": data})
    assert scan_files(held(data)).verdict == "found"
    assert not (tmp_path / "marker").exists()


def test_an_archive_without_an_end_in_itself_is_not_checked():
    data = b"safe\n"
    for _ in range(20):
        data = torch_files.zipped({"inner": data})
    assert scan_files(held(data)).verdict == "not checked"


def test_a_7z_file_says_what_it_is_and_a_damaged_one_that_it_is_damaged():
    data = archives.seven_zip()
    assert SevenZip().detect(held(data))
    assert SevenZip().describe(held(data), ENTRY) == {"versions": {"7z": "0.4"}, "directory_bytes": 0}
    [finding] = SevenZip().hazards(held(data), ENTRY)
    assert finding.verdict == "not checked"
    with pytest.raises(MalformedError):
        SevenZip().describe(held(data[:-1] + b"x"), ENTRY)


def test_machine_code_is_found_and_described_without_being_loaded():
    data = torch_files.compiled()
    assert Aoti().detect(held(data))
    assert not TorchExport().detect(held(data))
    described = Aoti().describe(held(data), ENTRY)
    assert described["models"] == ["model"]
    assert described["metadata"] == {"AOTI_DEVICE_KEY": "cpu"}
    assert described["libraries"][0]["name"].endswith(".wrapper.so")
    assert described["code"] is True
    [finding] = scan_files(held(data)).findings
    assert finding.rule == "native-code"
    assert "abc.wrapper.so that runs when the model is loaded" in finding.message


def test_a_member_beside_the_machine_code_is_looked_at(tmp_path):
    with zipfile.ZipFile(io.BytesIO(torch_files.compiled())) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["model/data/weights/a.pt"] = pickle.dumps(Payload(tmp_path / "marker"), 2)
    assert "untrusted-global" in {one.rule for one in scan_files(held(torch_files.zipped(content))).findings}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler warns of what it uses itself
def test_a_package_that_pytorch_compiles_is_recognised(tmp_path):
    import torch

    program = torch.export.export(torch_files.network(), (torch.ones(3, 4),))
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    data = Path(path).read_bytes()
    assert Aoti().describe(held(data), ENTRY)["metadata"]["AOTI_DEVICE_KEY"] == "cpu"
    assert {one.rule for one in scan_files(held(data)).findings} == {"native-code"}


def served(**changes):
    manifest = json.loads(json.dumps(torch_files.MANIFEST))
    manifest["model"].update(changes)
    return torch_files.zipped({**torch_files.served(), MANIFEST: json.dumps(manifest).encode()})


def test_a_served_model_says_what_it_is_and_that_its_handler_is_code():
    for data in (served(), torch_files.tarred(torch_files.served(), "w:gz"), torch_files.tarred(torch_files.served())):
        assert TorchServe().detect(held(data))
        described = TorchServe().describe(held(data), ENTRY)
        assert (described["name"], described["needs"], described["code"]) == ("net", ["handler.py"], True)
        [finding] = TorchServe().hazards(held(data), ENTRY)
        assert (finding.rule, finding.subject) == ("python-code", "handler.py")
        assert finding.message == "handler.py runs when the archive is served"
        assert [place for place, _ in TorchServe().parts(held(data), ENTRY)] == ["a: model.pt"]


def test_a_handler_of_torchserve_itself_is_no_code_of_the_archive():
    content = {"model.pt": torch_files.saved("checkpoint")}
    manifest = json.loads(json.dumps(torch_files.MANIFEST))
    manifest["model"]["handler"] = "image_classifier"
    content[MANIFEST] = json.dumps(manifest).encode()
    assert scan_files(held(torch_files.zipped(content))).verdict == "clean"


@pytest.mark.parametrize(
    ("changes", "rule", "subject"),
    [
        ({"handler": "somewhere.else:run"}, "python-code", "somewhere.else:run"),
        ({"requirementsFile": "requirements.txt"}, "installs-packages", "requirements.txt"),
    ],
)
def test_code_from_elsewhere_is_found(changes, rule, subject):
    assert (rule, subject) in {(one.rule, one.subject) for one in TorchServe().hazards(held(served(**changes)), ENTRY)}


@pytest.mark.parametrize("manifest", [b"{", b"[]", b'{"model": 1}', b'{"model": {"handler": 1}}'])
def test_a_manifest_that_is_none_is_malformed(manifest):
    data = torch_files.zipped({**torch_files.served(), MANIFEST: manifest})
    with pytest.raises(MalformedError):
        TorchServe().describe(held(data), ENTRY)


def test_a_payload_beside_a_schema_of_skops_is_found(tmp_path):
    with zipfile.ZipFile(io.BytesIO(archives.skops())) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["notes.txt"] = pickle.dumps(Payload(tmp_path / "marker"), 2)
    data = torch_files.zipped(content)
    assert Skops().detect(held(data))
    assert "untrusted-global" in {one.rule for one in scan_files(held(data)).findings}


def test_a_schema_that_hides_its_keys_is_still_one_of_skops():
    schema = b'{"__class__": "system", "__module__": "os", "__load\\u0065r__": "FunctionNode", "protocol": 2}'
    data = torch_files.zipped({"schema.json": schema})
    assert Skops().detect(held(data))
    assert scan_files(held(data)).verdict == "found"
    assert not Skops().detect(held(torch_files.zipped({"schema.json": b'{"type": "object"}'})))


def test_a_schema_that_is_a_bomb_is_not_clean():  # recipe 85
    data = torch_files.zipped({"schema.json": b" " * 80_000_000}, zipfile.ZIP_DEFLATED)
    assert Skops().detect(held(data))
    assert scan_files(held(data)).verdict != "clean"


SEEDS = {
    Zip: archives.wide,
    Tar: archives.linked,
    Aoti: torch_files.compiled,
    TorchServe: lambda: torch_files.tarred(torch_files.served(), "w:gz"),
    Skops: archives.skops,
    TorchExport: torch_files.exported,
    SevenZip: archives.seven_zip,
}
MADE = {}


@given(data=st.data(), kind=st.sampled_from(list(SEEDS)))
def test_damage_gives_typed_errors_only(data, kind):
    made = bytearray(MADE.setdefault(kind, None) or SEEDS[kind]())
    MADE[kind] = bytes(made)
    for _ in range(data.draw(st.integers(1, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    files, form = held(bytes(made)), kind()
    form.detect(files)
    for ask in (form.describe, *(getattr(form, name, None) for name in ("hazards", "parts"))):
        if ask is not None:
            with contextlib.suppress(VitrifyError):
                list(ask(files, ENTRY))
