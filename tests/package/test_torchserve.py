"""TorchServe's archive: the layout that its archiver writes, the same bytes every time, read back by our own reader."""

from __future__ import annotations

import json
import zipfile

import pytest

import vitrify
from vitrify import package
from vitrify.formats.torchserve import TorchServe
from vitrify.package import torchserve
from vitrify.reading.files import LocalFiles


@pytest.fixture
def archive(churn, tmp_path):
    package.export(churn, tmp_path / "store", "torchserve", allow=["acme.Scale"])
    return tmp_path / "store" / "team-churn.mar"


def test_the_manifest_says_what_the_archiver_says(archive, churn):
    with zipfile.ZipFile(archive) as opened:
        manifest = json.loads(opened.read("MAR-INF/MANIFEST.json"))
        names = opened.namelist()
    model = manifest["model"]
    assert manifest["runtime"] == "python"
    assert manifest["archiverVersion"]
    assert manifest["vitrifyDigest"] == str(churn.digest)
    assert (model["modelName"], model["modelVersion"]) == ("team-churn", "1.2.0")
    assert {model["handler"], model["requirementsFile"], torchserve.MANIFEST} <= {*names}
    assert len(set(names)) == len(names)


def test_the_artifact_inside_is_the_same(archive, churn, tmp_path):
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "opened")
    assert vitrify.open(str(tmp_path / "opened" / "artifact")).digest == churn.digest


def test_the_handler_has_the_function_that_torchserve_looks_for(archive):
    with zipfile.ZipFile(archive) as opened:
        source = opened.read(torchserve.HANDLER).decode()
        needs = opened.read(torchserve.REQUIREMENTS).decode().splitlines()
    scope = {}
    exec(compile(source, torchserve.HANDLER, "exec"), scope)
    assert callable(scope["handle"])
    assert "acme.Scale" in source
    assert needs[0].startswith("vitrify[serve]==")
    assert any(line.startswith("scikit-learn==") for line in needs)


def test_our_own_reader_knows_it(archive):
    files = LocalFiles({archive.name: archive})
    assert TorchServe().detect(files)
    told = TorchServe().describe(files, {})
    assert (told["name"], told["versions"]["model"]) == ("team-churn", "1.2.0")


def test_the_same_artifact_gives_the_same_bytes(churn, tmp_path, tree):
    for name in ("a", "b"):
        package.export(churn, tmp_path / name, "torchserve")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
