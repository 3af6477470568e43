from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from vitrify.checks.parity import Tolerance, compare_sessions
from vitrify.checks.parity.picture import html, svg, text
from vitrify.core.report import Finding, Report

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def report(table, session):
    signature = table(x="float64")

    def outputs(x, off):
        return {"<y> & z": x * (1 + off), "label": np.array(["a", "b"], object)[(x > 0).astype(int)]}

    def make(off, tolerance=None):
        return compare_sessions(
            session(signature, lambda a: outputs(a["x"], off)),
            session(signature, lambda a: outputs(a["x"], 0.0)),
            {"x": np.linspace(-3, 3, 50)},
            tolerance,
            row_count=500,
        )

    return make


def texts(image):
    return [element.text for element in ET.fromstring(image).iter(f"{SVG}text")]


@pytest.mark.parametrize("off", [0.0, 1e-12, 1e-4])
def test_the_image_is_well_formed_and_shows_outputs_verdict_and_every_row(report, off):
    made = report(off)
    shown = texts(svg(made))
    assert {"<y> & z", "label", f"parity: {made.verdict}"} <= set(shown)
    titles = [element.text for element in ET.fromstring(svg(made)).iter(f"{SVG}title")]
    rows = sum(int(title.split(": ")[1].split()[0].replace(",", "")) for title in titles)
    assert rows == made.details["outputs"]["<y> & z"]["rows"] - made.details["outputs"]["<y> & z"]["overflowed"]


def test_the_tolerance_line_stands_between_what_passes_and_what_fails(report):
    image = ET.fromstring(svg(report(1e-4, Tolerance(rtol=1e-6, atol=1e-9))))
    line = next(e for e in image.iter(f"{SVG}line") if e.get("stroke-dasharray"))
    rects = [e for e in image.iter(f"{SVG}rect") if float(e.get("height", "0")) > 0]
    bars = {e.find(f"{SVG}title").text.split(":")[0]: float(e.get("x")) for e in rects if len(e)}
    failing = {label: x for label, x in bars.items() if label.startswith("1e") and int(label[2:]) >= -6}
    passing = {label: x for label, x in bars.items() if label not in failing}
    assert failing
    assert passing
    assert max(passing.values()) < float(line.get("x1")) <= min(failing.values())


@pytest.mark.parametrize(
    "tolerance", [Tolerance(rtol=0.0, atol=1e-3), Tolerance(rtol=0.0, atol=0.0), Tolerance(rtol=3e-5)]
)
def test_any_tolerance_can_be_drawn(report, tolerance):
    for off in (0.0, 1e-5):
        made = report(off, tolerance)
        ET.fromstring(svg(made))
        assert "tolerance" in text(made)


def test_the_page_escapes_what_comes_from_models(report):
    page = html(report(1e-4))
    assert "<y>" not in page
    assert "&lt;y&gt; &amp; z" in page
    assert "Worst rows" in page


def test_the_terminal_shows_bars_the_tolerance_and_the_findings(report):
    made = report(1e-4)
    shown = text(made)
    assert "█" in shown
    assert "tolerance" in shown
    assert str(made.findings[0]) in shown


def test_a_report_that_came_back_from_json_looks_the_same(report):
    made = report(1e-4)
    again = Report.from_json(made.to_json(), where="test")
    assert svg(again) == svg(made)
    assert html(again) == html(made)
    assert text(again) == text(made)


def test_what_was_not_checked_says_why():
    made = Report(check="parity", verdict="not checked", findings=(Finding(place="samples", message="there are none"),))
    assert "there are none" in svg(made)
    assert "not checked" in html(made)
    assert "there are none" in text(made)
