from __future__ import annotations

import json

import pytest
from samples import protobufs as made

from vitrify.core.errors import MalformedError
from vitrify.formats.tf_checkpoint import TfCheckpoint
from vitrify.inspection.identify import files_at
from vitrify.reading.files import HeldFiles


def variables(tmp_path):
    return made.SAMPLES["tf-checkpoint/variables"](tmp_path)


def test_a_checkpoint_says_its_tensors(tmp_path):
    files = files_at(variables(tmp_path))
    assert TfCheckpoint().detect(files)
    assert list(TfCheckpoint().hazards(files, {})) == []
    described = json.loads(json.dumps(TfCheckpoint().describe(files, {})))
    assert described["checkpoint"] == "variables"
    assert described["parameters"] == 50441
    assert described["bytes"] == sum(one["bytes"] for one in described["tensors"])


@pytest.mark.slow
def test_the_newest_of_several_is_described(tmp_path):
    files = files_at(made.SAMPLES["tf-checkpoint/run"](tmp_path))
    assert list(TfCheckpoint().hazards(files, {})) == []
    described = TfCheckpoint().describe(files, {})
    assert described["checkpoint"] == "ckpt-2"
    assert described["checkpoints"] == ["ckpt-1", "ckpt-2"]
    assert {"name": "weight/.ATTRIBUTES/VARIABLE_VALUE", "type": "float32", "shape": [3, 4], "bytes": 48} in described[
        "tensors"
    ]


def test_an_index_alone_is_described_but_not_checked(tmp_path):
    index = variables(tmp_path) / "variables.index"
    files, entry = files_at(index), {"file": index.name}
    assert TfCheckpoint().detect(files)
    assert TfCheckpoint().describe(files, entry)["parameters"] == 50441
    (found,) = TfCheckpoint().hazards(files, entry)
    assert (found.rule, found.verdict) == ("checkpoint-data-missing", "not checked")


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/../../x", "gs://bucket/x", "c:\\\\x"])
def test_a_state_file_that_leads_elsewhere_is_found(path, tmp_path):
    folder = variables(tmp_path)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{path}"\n')
    (found,) = TfCheckpoint().hazards(files_at(folder), {})
    assert found.rule == "checkpoint-path"
    (folder / "checkpoint").write_text('model_checkpoint_path: "variables"\n')
    assert list(TfCheckpoint().hazards(files_at(folder), {})) == []


def test_what_is_no_checkpoint_is_not_detected():
    for data in (b"", b"x" * 100):
        files = HeldFiles({"x.index": memoryview(data)})
        assert not TfCheckpoint().detect(files)
        with pytest.raises(MalformedError):
            TfCheckpoint().describe(files, {"file": "x.index"})
    with pytest.raises(MalformedError):
        TfCheckpoint().describe(HeldFiles({"a": memoryview(b""), "b": memoryview(b"")}), {})
