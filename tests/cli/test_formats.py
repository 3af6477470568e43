"""``vitrify formats``: the map, whole and of one format."""

from __future__ import annotations

import json

import pytest

from vitrify.core.row import Row


def lines(out, start):
    """Return the lines of a table from the one that starts its rows."""
    found = out.splitlines()
    return found[next(at for at, line in enumerate(found) if line.startswith(start)) :]


def test_the_whole_map_has_a_line_a_format_a_runtime_and_a_source(call):
    code, out, _ = call("formats")
    assert code == 0
    assert any(line.startswith("skops ") and "estimator" in line for line in out.splitlines())
    assert any(line.startswith("onnxruntime ") and "onnx, ort" in line for line in out.splitlines())
    reach = next(line for line in lines(out, "from ") if line.startswith("keras "))
    assert "safetensors (lossy), saved-model" in reach
    assert "onnx (2)" in reach
    assert max(len(line) for line in lines(out, "from ")) < 300


def test_one_format_is_shown_with_its_roads_step_by_step(call):
    code, out, _ = call("formats", "keras")
    assert code == 0
    assert "keras -> saved-model -> onnx" in out
    code, out, _ = call("formats", "onnx")
    sources = [line.split()[0] for line in lines(out, "to onnx from")[1:]]
    assert {"skops", "xgboost", "saved-model"} <= set(sources)


def test_what_is_missing_is_in_brackets_with_the_extra_that_brings_it(call, monkeypatch):
    monkeypatch.setattr(Row, "installed", lambda row: "keras" not in row.requires)
    _, out, _ = call("formats")
    assert any(line.startswith("keras ") and "[keras]" in line for line in out.splitlines())
    _, out, _ = call("formats", "keras")
    assert "[numeric]" in out


def test_one_format_as_json_has_its_roads_as_plans(call):
    shown = json.loads(call("formats", "skops", "--json")[1])
    assert shown["name"] == "skops"
    assert "onnx" in [plan["target"] for plan in shown["roads"]]


def test_the_map_is_drawn_only_as_svg(call, tmp_path):
    assert call("formats", "-o", tmp_path / "map.svg")[0] == 0
    assert (tmp_path / "map.svg").read_text().startswith("<svg")
    assert call("formats", "-o", tmp_path / "map.png")[0] == 2


@pytest.mark.parametrize(("name", "near"), [("kears", "keras"), ("TFLite", "tflite"), ("save-model", "saved-model")])
def test_an_unknown_format_is_told_with_those_near_to_it(call, name, near):
    code, _, err = call("formats", name)
    assert code == 2
    assert near in err
    assert len(err) < 200


@pytest.mark.parametrize(
    ("kind", "typed", "completed"),
    [("TARGET", "op", ["openvino"]), ("FORMAT", "gg", ["gguf"]), ("TARGET", "gg", [])],
)
def test_formats_are_completed_and_targets_only_where_a_road_leads(kind, typed, completed):
    from vitrify.cli import _options
    from vitrify.cli.formats import command

    context = command.make_context("formats", [])
    items = getattr(_options, kind).shell_complete(context, command.params[0], typed)
    assert [item.value for item in items] == completed
