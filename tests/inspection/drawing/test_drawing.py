"""Drawings: every operator once, nothing over anything else, and a page that a real browser can walk around in."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from browser import browser, in_a_browser
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.inspection.drawing import page, plan, rails, svg
from vitrify.inspection.drawing.layout import layout


@st.composite
def graphs(draw, depth=1):
    """A graph whose operators take earlier tensors, weights, and names that nobody makes."""
    inputs = tuple(f"in{index}" for index in range(draw(st.integers(0, 3))))
    known, nodes = list(inputs), []
    for index in range(draw(st.integers(0, 25))):
        pool = st.sampled_from([*known, "w", "", "nobody"])
        inner = {"body": draw(graphs(depth=depth - 1))} if depth and draw(st.integers(0, 9)) == 0 else {}
        taken = tuple(draw(st.lists(pool, max_size=4)))
        made = tuple(f"t{index}_{part}" for part in range(draw(st.integers(0, 2))))
        nodes.append(
            Node(operator=draw(st.sampled_from(["Conv", "Add", "<&>"])), inputs=taken, outputs=made, graphs=inner)
        )
        known += made
    outputs = tuple(draw(st.lists(st.sampled_from([*known, "nobody"]), max_size=3, unique=True)))
    tensors = {"w": Tensor(type="float32", shape=(3, None, "N"), weight=True), "in0": Tensor(type="int64")}
    return Graph(name="g", inputs=inputs, outputs=outputs, nodes=tuple(nodes), tensors=tensors)


@given(graphs())
@settings(deadline=None)
def test_every_operator_input_and_output_has_one_box_and_no_two_boxes_overlap(graph):
    shown = plan.picture(graph)
    placed = layout(shown)
    assert [box.node for box in shown.boxes if box.node] == list(graph.nodes)
    assert len(shown.boxes) == len(graph.inputs) + len(graph.nodes) + len(graph.outputs)
    spots = sorted(placed.spots, key=lambda spot: (spot.layer, spot.x))
    for one, other in pairwise(spots):
        if one.layer == other.layer:
            assert one.x + one.width / 2 <= other.x - other.width / 2
        else:
            assert one.y + one.height / 2 < other.y - other.height / 2
    for spot in spots:
        assert spot.x - spot.width / 2 >= 0
        assert spot.x + spot.width / 2 <= placed.width
        assert spot.y - spot.height / 2 >= 0
        assert spot.y + spot.height / 2 <= placed.height


@given(graphs())
@settings(deadline=None)
def test_every_use_of_a_tensor_is_an_arrow_down_from_its_maker(graph):
    shown = plan.picture(graph)
    placed = layout(shown)
    makers = {name: index for index, name in enumerate(graph.inputs)}
    makers |= {name: len(graph.inputs) + index for index, node in enumerate(graph.nodes) for name in node.outputs}
    wanted = {
        (makers[name], len(graph.inputs) + index, name)
        for index, node in enumerate(graph.nodes)
        for name in node.inputs
        if name in makers
    }
    drawn = {(arrow.source, arrow.target, arrow.name) for arrow in shown.arrows}
    assert wanted <= drawn
    for arrow, path in zip(shown.arrows, placed.paths, strict=True):
        assert all(one[1] <= other[1] for one, other in pairwise(path)), arrow


@given(graphs())
@settings(deadline=None)
def test_the_text_has_a_line_for_each_box_and_rails_only_while_a_tensor_is_needed(graph):
    inner = sum(
        len(one.nodes) + len(one.inputs) + len(one.outputs) + 1 for node in graph.nodes for one in node.graphs.values()
    )
    lines = rails.text(graph).split("\n")
    assert len([line for line in lines if line]) == len(graph.nodes) + len(graph.inputs) + len(graph.outputs) + inner


def test_the_rails_of_a_diamond_split_and_join():
    nodes = (
        Node(operator="Split", inputs=("x",), outputs=("a", "b")),
        Node(operator="Left", inputs=("a",), outputs=("c",)),
        Node(operator="Right", inputs=("b",), outputs=("d",)),
        Node(operator="Join", inputs=("c", "d"), outputs=("y",)),
    )
    graph = Graph(inputs=("x",), outputs=("y",), nodes=nodes, tensors={"y": Tensor(type="f32", shape=(2, "N"))})
    assert rails.text(graph).split("\n") == [
        "●  input x",
        "●  Split",
        "├─●  Left",
        "● │  Right",
        "●─╯  Join",
        "●  output y f32[2, N]",
    ]


def test_weights_and_constants_stand_in_the_box_that_uses_them():
    nodes = (
        Node(operator="Constant", outputs=("k",)),
        Node(operator="Conv", inputs=("x", "w", "k"), outputs=("y",)),
    )
    tensors = {"w": Tensor(type="f32", shape=(8, 3), weight=True), "k": Tensor(type="i64", shape=())}
    shown = plan.picture(Graph(inputs=("x",), outputs=("y",), nodes=nodes, tensors=tensors))
    assert [(box.title, box.lines) for box in shown.boxes if box.node] == [("Conv", ["w f32[8, 3]", "k i64[]"])]


def test_a_tensor_that_only_an_inner_graph_takes_leads_to_the_operator_that_holds_it():
    inner = Graph(outputs=("z",), nodes=(Node(operator="Neg", inputs=("x",), outputs=("z",)),))
    graph = Graph(
        inputs=("x", "c"),
        outputs=("y",),
        nodes=(Node(operator="If", inputs=("c",), outputs=("y",), graphs={"then": inner}),),
    )
    assert {(arrow.source, arrow.target) for arrow in plan.picture(graph).arrows} >= {(0, 2), (1, 2)}


def test_a_cycle_a_name_made_twice_and_ten_thousand_operators_are_drawn_too():
    loop = Graph(
        nodes=(Node(operator="A", inputs=("b",), outputs=("a",)), Node(operator="B", inputs=("a",), outputs=("b", "a")))
    )
    long = tuple(Node(operator="Op", inputs=(f"t{index}", "t0"), outputs=(f"t{index + 1}",)) for index in range(10_000))
    for graph in (loop, Graph(inputs=("t0",), nodes=long)):
        ET.fromstring(svg.svg(graph))
        assert rails.text(graph, most=5).count("\n") <= 5


@given(graphs())
@settings(deadline=None, max_examples=30)
def test_the_svg_is_well_formed_and_holds_no_script(graph):
    root = ET.fromstring(svg.svg(graph))
    assert not [one for one in root.iter() if one.tag.endswith("script")]
    assert len([one for one in root.iter() if one.tag.endswith("}g")]) == len(plan.picture(graph).boxes)


EVIL = '</script><script>document.title="run"</script>"><img src=x onerror=document.title="run">'


@pytest.mark.external
@in_a_browser
def test_in_a_real_browser_the_page_shows_and_the_names_in_a_model_run_nothing(tmp_path):
    inner = Graph(name="inner", inputs=("q",), nodes=(Node(operator="Neg", inputs=("q",), outputs=("z",)),))
    nodes = (
        Node(operator=EVIL, name=EVIL, inputs=("x",), outputs=("y",), attributes={"a": EVIL}, graphs={EVIL: inner}),
    )
    graph = Graph(name=EVIL, inputs=("x",), outputs=("y",), nodes=nodes, tensors={"x": Tensor(type=EVIL, shape=(1,))})
    file = tmp_path / "page.html"
    file.write_text(page.page(graph, "title of the page"), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(file.as_uri())
        dom = tab.run("document.documentElement.outerHTML")
        assert tab.said == []
    assert "<title>title of the page</title>" in dom
    assert re.search(r"<svg[^>]*style=\"transform: translate\(", dom), "the script ran and placed the drawing"
    assert len(re.findall(r"<section id=", dom)) == 2
