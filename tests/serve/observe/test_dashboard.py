"""The live page: one file that needs nothing else, says nothing by itself, and draws what happened."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
from seen_serving import ask, infer, seen

from vitrify.core.html import page_headers
from vitrify.serve.observe import dashboard

PAGE = dashboard.page()
VOID = {"meta", "input"}


class Page(HTMLParser):
    """The elements of a page, each closed where it was opened."""

    def __init__(self):
        super().__init__()
        self.open, self.elements = [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def elements():
    page = Page()
    page.feed(PAGE)
    page.close()
    assert page.open == []
    return page.elements


def test_the_page_loads_nothing_from_anywhere(elements):
    for _, attributes in elements:
        assert not {"src", "srcset", "action", "style"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "metrics") == "metrics"
    assert re.findall(r"https?://[^\"']*", PAGE) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in PAGE
    assert "innerHTML" not in PAGE


def test_the_page_can_be_used_without_seeing_it(elements):
    assert ("html", {"lang": "en"}) in elements
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {attributes["for"] for tag, attributes in elements if tag == "label"}
    assert labelled == {attributes["id"] for tag, attributes in elements if tag == "input"}
    assert [attributes for _, attributes in elements if attributes.get("role") == "status"]
    tags = [tag for tag, _ in elements]
    assert (tags.count("h1"), tags.count("main"), tags.count("title")) == (1, 1, 1)


def test_every_element_that_the_script_looks_for_is_there(elements):
    ids = {attributes["id"] for _, attributes in elements if "id" in attributes}
    assert set(re.findall(r'find\("(\w+)"\)', PAGE)) <= ids


def test_the_policy_allows_its_own_script_and_style_and_nothing_else():
    assert page_headers("<style>a</style><script>b</script>")["content-security-policy"] == (
        "default-src 'none'; script-src 'sha256-PiPoFgA5WUoziU9lZOGxNIu9egCI1CxKy3PurtWcAJ0='; "
        "style-src 'sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs='; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@pytest.fixture(scope="module")
def running(store):
    with seen("python", store) as running:
        assert infer(running.http, 3) == 200
        yield running


def test_the_page_is_served_with_its_policy(running):
    status, headers, body = ask(running.http, "/dashboard")
    assert (status, body.decode()) == (200, PAGE)
    assert page_headers(PAGE).items() <= headers.items()
    assert "'unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


FIRST, SECOND = (
    {
        "time": time,
        "model": {
            "ok": ok,
            "failed": {"BusyError": failed},
            "rows": 2 * ok,
            "batches": ok // 2,
            "waiting": 4,
            "running": 1,
            "answered": {"counts": counts},
        },
    }
    for time, ok, failed, counts in ((10.0, 100, 0, [50, 50, 0, 0]), (12.0, 140, 6, [50, 60, 30, 0]))
)
CASES = {
    "percentile([], [], 0.5)": None,
    "percentile([0, 0, 0], [1, 2], 0.5)": None,
    "percentile([10, 0, 0], [1, 2], 0.5)": 0.5,
    "percentile([1, 0, 99], [1, 2], 0.99)": 2,
    "percentile([0, 10, 0], [1, 2], 1)": 2,
    "minus([3, 4], [1, 1])": [2, 3],
    "minus([1, 1], [3, 4])": [1, 1],
    "minus([1], undefined)": [1],
    f"between([{json.dumps(FIRST)}, {json.dumps(SECOND)}], [1, 2, 3])": {
        "ok": 20,
        "failed": 3,
        "rows": 40,
        "p50": 1 + 1 / 3 + 1,
        "p99": 2 + 29.6 / 30,
        "waiting": 4,
        "running": 1,
        "batch": 4,
    },
    f"between([{json.dumps(FIRST)}], [1, 2, 3]).ok": None,
    "number(null) + number(0) + number(1.234) + number(12.34) + number(1234.5)": "–01.2312.31,235",
    "duration(0.00005) + duration(0.0123) + duration(90)": "50 µs12.3 ms90 s",
    "size(1536) + size(3 * 1024 ** 3)": "1.50 KiB3 GiB",
    "lines([null, 1, 2, null, 2], 2).length": 2,
}


@pytest.mark.external
@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's functions")
def test_the_functions_of_the_page_say_what_happened():
    functions = PAGE.partition("<script>")[2].partition("// From here on the page itself.")[0]
    script = f"{functions}\nconsole.log(JSON.stringify([{', '.join(CASES)}]))"
    done = subprocess.run(["node", "-e", script], capture_output=True, check=True, timeout=60)
    found = dict(zip(CASES, json.loads(done.stdout), strict=True))
    assert found == {
        case: pytest.approx(value) if isinstance(value, (float, dict)) else value for case, value in CASES.items()
    }
