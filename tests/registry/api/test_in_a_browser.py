"""The registry's page in a real browser: a reader finds her way by clicking, an approver decides, nobody is tricked."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from browser import browser, in_a_browser
from registries import register, statement

from vitrify.registry import requests as r
from vitrify.registry.api.pages import browse

pytestmark = pytest.mark.external
PAGE = browse(None).body.decode()
TEXT = "<script>alert(1)</script>'\"<img src=x onerror=alert(2)>"


@pytest.fixture
def filled(registry_server, request):
    """A model with texts that no page should stumble over, two versions, and a request of one to be promoted."""
    name = f"risk/{request.node.name.replace('_', '-')}"
    client = registry_server.client("writer", who="ann")
    client.create_model(name, description=TEXT, owner=TEXT, tags={TEXT: TEXT})
    for number, auc in (("1", 0.9), ("2", 0.95)):
        about = {"metrics": {"auc": auc}, "parameters": {"depth": "3"}, "datasets": {"train": "wine.csv", TEXT: TEXT}}
        register(client.backend, name, number, card=TEXT, commit="4f" * 20, run=TEXT, **about)
    digest = client.version(name, "1").digest
    client.attach(digest, statement(digest, "https://slsa.dev/provenance/v1").encode())
    client.request_promotion(name, "2", "production", "better" + TEXT)
    client.deploy(name, "1", "shop")
    client.close()
    return registry_server, name


@pytest.fixture
def tab(registry_server, tmp_path):
    with browser(tmp_path) as tab:
        tab.open(f"{registry_server.url}/")
        yield tab
        assert [one for one in tab.said if "the server responded with a status of 4" not in str(one)] == []


def enter(tab, token):
    tab.until("!document.getElementById('door').hidden")
    tab.run(f"document.getElementById('token').value = {json.dumps(token)}")
    click(tab, "#door button")


def click(tab, selector, text=""):
    tab.run(f"""
        [...document.querySelectorAll({json.dumps(selector)})].find(
            (one) => one.textContent.includes({json.dumps(text)})).click()
    """)


def see(tab, *texts):
    tab.until(" && ".join(f"document.body.innerText.includes({json.dumps(text)})" for text in texts))


@in_a_browser
@pytest.mark.slow
def test_a_reader_finds_model_version_lineage_and_log_by_clicking(tab, filled):
    server, name = filled
    enter(tab, "vit_nonsense")
    see(tab, "token")
    enter(tab, server.token("reader", who="rita"))
    see(tab, name)
    click(tab, "main a", name)
    see(tab, TEXT, "0.95", "better")
    for box in tab.run("[...document.querySelectorAll('main input')].map((one) => one.getAttribute('aria-label'))"):
        click(tab, f"main input[aria-label='{box}']")
    click(tab, "main button", "Compare")
    see(tab, "0.9", "0.95", "wine.csv")
    assert tab.run("[...document.querySelectorAll('td.other')].map((one) => one.textContent)") == ["0.95", "0.9"]
    click(tab, "main h2 a")
    see(tab, "What happened last")
    click(tab, "main tbody a", ":1")
    see(tab, "Lineage", "shop", "wine.csv", "Nothing is missing", "provenance v1")
    assert "[object" not in tab.run("document.body.innerText")
    assert tab.run("document.querySelectorAll('svg.lineage rect').length") == 6
    click(tab, "nav a", "Log")
    see(tab, "promotion.requested", "vouches for all before it")
    tab.run("document.getElementById('query').value = 'metrics.auc > 0.92'")
    click(tab, "#ask button")
    see(tab, "Versions metrics.auc > 0.92", f"{name}:2")
    assert f"{name}:1" not in tab.run("document.body.innerText")
    tab.run("document.getElementById('query').value = 'metrics.auc >'")
    click(tab, "#ask button")
    tab.until("document.querySelector('[role=alert].bad') && !document.querySelector('main table')")
    click(tab, "#leave")
    tab.until("!document.getElementById('door').hidden && !document.querySelector('main table')")
    assert tab.run("document.scripts.length") == 1


@in_a_browser
@pytest.mark.slow
def test_who_may_not_decide_is_told_so_and_who_may_decides(tab, filled):
    server, name = filled
    enter(tab, server.token("reader", who="rita"))
    see(tab, name)
    click(tab, "nav a", "Promotions")
    see(tab, "better")
    click(tab, "main button", "Approve")
    tab.run("document.getElementById('comment').value = 'well done'")
    click(tab, "#yes")
    see(tab, "approver")
    click(tab, "dialog button", "Not now")
    click(tab, "#leave")
    enter(tab, server.token("approver", who="bob"))
    see(tab, "better")
    click(tab, "main button", "Approve")
    tab.run("document.getElementById('comment').value = 'well done'")
    click(tab, "#yes")
    see(tab, "Nobody asks for anything.", "bob: approve")
    reader = server.client("reader")
    assert [(one.who, one.comment) for one in reader.production_at(name).approvals] == [("bob", "well done")]
    (promotion,) = reader.do(r.ListPromotions(model=name)).promotions
    assert promotion.state == "done"
    reader.close()


NODES = [{"id": name} for name in "abcd"]
EDGES = [{"source": source, "target": target} for source, target in ("ab", "bc", "ad", "dc")]
CASES = {
    f"placed({json.dumps(NODES)}, {json.dumps(EDGES)}).map((one) => [one.id, one.x, one.y])": [
        *(["a", 0, 0], ["b", 290, 0], ["c", 580, 0], ["d", 290, 66]),
    ],
    f"placed({json.dumps(NODES[:2])}, {json.dumps([*EDGES[:1], {'source': 'b', 'target': 'a'}])}).length": 2,
    "placed([], [])": [],
    "compared([{m: {a: 1, b: 2}}, {m: {b: 3}}, {}], 'm')": [
        {"name": "a", "values": [1, None, None], "differ": True},
        {"name": "b", "values": [2, 3, None], "differ": True},
    ],
    "compared([{m: {a: 1}}, {m: {a: 1}}], 'm')[0].differ": False,
    "figure(0.1 + 0.2) + figure(3) + figure('x') + figure(null)": "0.33x",
    "brief({a: '', b: [], c: {}, d: 0, e: 'x', f: {g: 1}})": 'd 0, e x, f {"g":1}',
    "brief({a: 'x'.repeat(500)}).length": 160,
    "brief(undefined)": "",
    "route('#/version/a%2Fb/1.0.0')": ["version", "a/b", "1.0.0"],
    "route('#/%ff')": [""],
    "route('')": [""],
    "route(link('model', 'a b/c%'))": ["model", "a b/c%"],
    "when('2026-11-30T10:20:30Z')": "2026-11-30 10:20",
}


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's functions")
def test_what_is_drawn_follows_from_what_the_registry_says():
    functions = PAGE.partition("<script>")[2].partition("// From here on the page itself.")[0]
    script = f"{functions}\nconsole.log(JSON.stringify([{', '.join(CASES)}]))"
    done = subprocess.run(["node", "-e", script], capture_output=True, check=True)
    assert dict(zip(CASES, json.loads(done.stdout), strict=True)) == CASES


def test_the_page_loads_nothing_and_writes_no_markup():
    assert "innerHTML" not in PAGE
    assert "insertAdjacentHTML" not in PAGE
    assert PAGE.count("://") == PAGE.count("http://www.w3.org/2000/svg") == 1
    assert browse(None).headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
