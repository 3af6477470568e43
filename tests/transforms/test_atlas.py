from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from vitrify.core.catalog import Catalog, catalog
from vitrify.core.row import Row
from vitrify.transforms import atlas


@pytest.fixture
def small(monkeypatch):
    """A map of three steps, of which one needs what nobody has."""
    steps = [
        Row(kind="transform", name="a", target="x:Y", source="skops", destination="onnx", fidelity="exact"),
        Row(kind="transform", name="b", target="x:Y", source="onnx", destination="tflite", fidelity="lossy"),
        Row(kind="transform", name="c", target="x:Y", source="onnx", destination="ort", requires=("nobody_has_this",)),
    ]
    whole = Catalog([*catalog().rows("format"), *steps])
    for module in ("vitrify.transforms.atlas", "vitrify.transforms.planner"):
        monkeypatch.setattr(f"{module}.catalog", lambda: whole)


def test_a_road_is_as_faithful_as_its_worst_step(small):
    found = atlas.roads()
    assert {name: atlas.cell(plan) for name, plan in found["skops"].items()} == {
        "onnx": "exact",
        "ort": "[exact (2)]",
        "tflite": "lossy (2)",
    }
    assert atlas.targets(found) == ["onnx", "ort", "tflite"]
    assert atlas.cell(None) == ""


def test_the_picture_has_a_square_for_each_pair_and_says_which_road_it_is(small):
    picture = ET.fromstring(atlas.svg())
    squares = [one for one in picture.iter("{http://www.w3.org/2000/svg}rect") if one.get("width") != "14"]
    assert len(squares) == 2 * 3
    titles = {one.text for one in picture.iter("{http://www.w3.org/2000/svg}title")}
    assert "skops --a (exact)--> onnx --b (lossy)--> tflite" in titles
    assert sum("absent" in (one.get("class") or "") for one in squares) == 2


def test_the_whole_map_can_be_drawn():
    assert ET.fromstring(atlas.svg()).tag.endswith("svg")
