"""``vitrify matrix``: the table, its reasons, and JSON."""

from __future__ import annotations

import json

from vitrify.artifacts.artifact import list_artifacts
from vitrify.stores.oci_layout import OciLayout


def test_each_form_is_a_line_and_each_reason_one_more(call, shelf):
    code, out, err = call("matrix", "line", "--to", "onnx", "--to", "treelite", "--rows", "300", "--store", shelf)
    assert code == 0, err
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert [rows[form][1] for form in ("skops", "onnx")] == ["source", "proven"]
    (why,) = [line for line in out.splitlines() if line.startswith("treelite") and "refused" not in line]
    assert "LinearRegression" in why
    assert "vitrify convert line --to onnx" in out
    assert {artifact.name for artifact in list_artifacts(OciLayout(shelf))} == {"line:latest", "parts:latest"}


def test_as_json_each_form_has_its_road_and_figures(call, shelf):
    code, out, _ = call("matrix", "line", "--to", "onnx", "--rows", "300", "--json", "--store", shelf)
    assert code == 0
    source, onnx = json.loads(out)
    assert (source["target"], source["verdict"]) == ("skops", "source")
    assert onnx["road"]["steps"][0]["transform"] == "skops-to-onnx"
    assert onnx["rows"] > 200


def test_a_target_that_nobody_knows_is_told_before_anything_is_tried(call, shelf):
    code, _, err = call("matrix", "line", "--to", "onnx", "--to", "tfilte", "--store", shelf)
    assert code == 2
    assert "near it: tflite" in err
