"""``vitrify convert``: plans, refusals and exit codes."""

from __future__ import annotations

import json

import numpy as np

import vitrify
from vitrify.stores.oci_layout import OciLayout


def test_a_dry_run_shows_the_steps_and_says_that_nothing_stands_in_the_way(call, shelf):
    store = OciLayout(shelf)
    before = set(store.digests())
    code, out, err = call("convert", "line", "--to", "ort", "--dry-run", "--store", shelf)
    assert (code, err) == (0, "")
    assert "skops -> onnx" in out
    assert "onnx -> ort" in out
    assert "nothing stands in the way" in out
    assert set(store.digests()) == before


def test_a_dry_run_ends_as_the_conversion_would(call, shelf):
    parts = ("convert", "parts", "--store", shelf)
    planned, real = call(*parts, "--dry-run"), call(*parts)
    assert planned[0] == real[0] == 8
    assert planned[2] == real[2]
    assert "MiniBatchNMF" in planned[2]
    code, out, err = call(*parts, "--dry-run", "--json")
    assert code == 8
    assert len(json.loads(out)["problems"]) == 1
    assert json.loads(err)["error"] == "UnsupportedModelError"


def test_every_mistake_has_its_exit_code_and_names_what_is_right(call, shelf, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1,2\n")
    for arguments, code, text in (
        (["--to", "onix"], 2, "near it: onnx"),
        (["--via", "saved_model"], 2, "near it: saved-model"),
        (["--opset", "99"], 2, "opset 99"),
        (["--to", "safetensors"], 8, "--allow lossy"),
        (["--to", "gguf"], 8, "choose another target"),
        (["--to", "ort", "--via", "openvino"], 8, "from openvino to ort"),
        (["--state", "h"], 2, "expected INPUT=OUTPUT"),
        (["--samples", "nowhere.csv"], 2, "no such data file"),
        (["--samples", rows], 9, "does not fit"),
    ):
        got, _, err = call(
            "convert", "line", "--store", shelf, *arguments, *(() if "--state" in arguments else ("--dry-run",))
        )
        assert (got, text in err) == (code, True), (arguments, err)


def test_a_probe_that_nobody_knows_is_told_with_those_there_are(call, shelf):
    code, _, err = call("convert", "line", "--rows", "300", "--without", "nonsense", "--store", shelf)
    assert code == 2
    assert "'nonsense'" in err
    assert "extreme magnitudes" in err


def test_an_artifact_that_has_the_format_already_is_shown_as_it_is(call, shelf):
    code, out, _ = call("convert", "line", "--to", "skops", "--dry-run", "--store", shelf)
    assert (code, out) == (0, "skops (nothing to do)\n")
    code, out, err = call("convert", "line", "--to", "skops", "--store", shelf)
    assert (code, out, err) == (0, "nothing to do: it is skops already\n", "")
    code, out, _ = call("convert", "line", "--to", "skops", "--json", "--store", shelf)
    assert (code, json.loads(out)["format"]) == (0, "skops")


def test_a_report_that_cannot_be_written_is_told_before_the_work(call, shelf, tmp_path):
    before = set(OciLayout(shelf).digests())
    code, _, err = call("convert", "line", "--report", tmp_path / "nowhere" / "proof.html", "--store", shelf)
    assert code == 2
    assert "there is no directory" in err
    assert set(OciLayout(shelf).digests()) == before


def test_what_nothing_here_runs_says_so_when_it_is_asked_to_predict(call, tmp_path):
    import torch

    vitrify.save(torch.nn.Linear(3, 2).eval(), "net", example=torch.ones(4, 3))
    np.save(tmp_path / "rows.npy", np.ones((2, 3), "float32"))
    code, out, err = call("convert", "net", "--to", "coreml", "--rows", "200")
    assert code == 0, err
    assert "not checked" in out
    code, _, err = call("predict", "net-coreml", tmp_path / "rows.npy")
    assert code == 2
    assert "no runtime here opens coreml" in err
