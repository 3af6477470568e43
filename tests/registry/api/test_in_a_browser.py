"""The registry's page in a real browser: a reader finds her way by clicking, an approver decides, nobody is tricked."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from urllib.parse import quote

import pytest
from browser import browser, in_a_browser
from registries import register, statement
from servers import running_server

from vitrify.registry import requests as r
from vitrify.registry.api.pages import browse

pytestmark = pytest.mark.external
PAGE = browse(None).body.decode()
ENVELOPE = json.dumps(
    {
        "payload": base64.b64encode(json.dumps({"predicate": {"verdict": "ü"}}, ensure_ascii=False).encode()).decode(),
        "signatures": [{"keyid": "k1", "sig": ""}],
    }
)
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
def tab(tmp_path):
    with browser(tmp_path) as tab:
        yield tab
        assert [one for one in tab.said if "the server responded with a status of 4" not in str(one)] == []


def enter(tab, server, *roles, who):
    """Open the server's page with a new token."""
    tab.open(f"{server.url}/")
    give(tab, server.token(*roles, who=who))


def give(tab, token):
    tab.until("!document.getElementById('door').hidden")
    tab.run(f"document.getElementById('token').value = {json.dumps(token)}")
    click(tab, "#door button")


def click(tab, selector, text=""):
    tab.run(f"""
        [...document.querySelectorAll({json.dumps(selector)})].find(
            (one) => one.textContent.includes({json.dumps(text)})).click()
    """)


def approve(tab, name):
    """Press the button beside a model's request, of which the registry may have others."""
    tab.run(f"""
        [...document.querySelectorAll("main tr")].find((row) => row.innerText.includes({json.dumps(name)}))
            .querySelector("button").click()
    """)


def see(tab, *texts):
    tab.until(" && ".join(f"document.body.innerText.includes({json.dumps(text)})" for text in texts))


@in_a_browser
@pytest.mark.slow
def test_a_reader_finds_model_version_lineage_and_log_by_clicking(tab, filled):
    server, name = filled
    tab.open(f"{server.url}/")
    give(tab, "vit_nonsense")
    see(tab, "token")
    give(tab, server.token("reader", who="rita"))
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
    click(tab, "main tbody a", "1")
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
    enter(tab, server, "reader", who="rita")
    see(tab, name)
    click(tab, "nav a", "Promotions")
    see(tab, "better")
    approve(tab, name)
    tab.run("document.getElementById('comment').value = 'well done'")
    click(tab, "#yes")
    see(tab, "approver")
    click(tab, "dialog button", "Not now")
    click(tab, "#leave")
    give(tab, server.token("approver", who="bob"))
    see(tab, "better")
    approve(tab, name)
    tab.run("document.getElementById('comment').value = 'well done'")
    click(tab, "#yes")
    see(tab, "bob: approve")
    reader = server.client("reader")
    assert [(one.who, one.comment) for one in reader.production_at(name).approvals] == [("bob", "well done")]
    (promotion,) = reader.do(r.ListPromotions(model=name)).promotions
    assert promotion.state == "done"
    reader.close()


LONG = "risk/" + "-".join(["a-name-with-many-words"] * 4)
FIGURES = ("1234567.25", "16777217.629", "0.1234567890123")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A server with more models than come at once, and one in which everything is long."""
    with running_server(tmp_path_factory.mktemp("crowded")) as server:
        fill(server)
        yield server


def fill(server):
    backend = server.local()
    for number in range(101):
        backend.do(r.CreateModel(name=f"z/many-{number:03}"))
    about = {
        "tags": {"k" * 200: "v" * 400},
        "metrics": {f"metric-{at:02}": float(text) for at, text in enumerate(FIGURES)},
    }
    about["metrics"] |= {f"of-many-{at:02}/with-a-long-name": at / 7 for at in range(40)}
    about["datasets"] = {f"set-{at}": f"s3://bucket/{'a-long-path/' * 6}{at}.parquet" for at in range(20)}
    for number in range(1, 4):
        register(backend, LONG, str(number), version=f"1.0.{number}+{'x' * 60}", description="words " * 200, **about)
    for number in range(20):
        backend.do(r.Deploy(model=LONG, version="3", target=f"cluster/{'zone-' * 10}{number}"))
    backend.do(r.RequestPromotion(model=LONG, version="2", stage="production", comment="please " * 100))
    backend.close()


@in_a_browser
@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 420])
def test_nothing_long_makes_a_page_wider_than_its_window(tab, crowded, width):
    tab.resize(width, 900)
    enter(tab, crowded, "reader", who="rita")
    for hash_, seen in (
        ("#/models/z%2F*", "z/many-000"),
        (f"#/model/{quote(LONG, safe='')}", "What happened last"),
        (f"#/version/{quote(LONG, safe='')}/3", "Lineage"),
        (f"#/compare/{quote(LONG, safe='')}/1/2/3", "Data"),
        ("#/promotions", "Ended"),
        ("#/log", "vouches for all"),
        ("#/search/metrics.none%20%3E", "for example"),
    ):
        tab.run(f"location.hash = {json.dumps(hash_)}")
        see(tab, seen)
        assert tab.run("document.documentElement.scrollWidth - innerWidth") <= 0, hash_


@in_a_browser
@pytest.mark.slow
def test_every_digit_of_a_figure_is_shown_and_a_long_list_is_read_on_and_filtered(tab, crowded):
    enter(tab, crowded, "reader", who="rita")
    see(tab, "Models")
    tab.run("location.hash = '#/models/z%2F*'")
    see(tab, "z/many-099")
    assert "z/many-100" not in tab.run("document.body.innerText")
    click(tab, "main button", "More")
    see(tab, "z/many-100", "z/many-000")
    tab.run("document.getElementById('filter').value = 'many-04'")
    click(tab, "main button", "Filter")
    tab.until("document.querySelectorAll('main tbody tr').length === 10")
    for page in ("version/{}/3", "compare/{}/1/2"):
        tab.run(f"location.hash = {json.dumps('#/' + page.format(quote(LONG, safe='')))}")
        see(tab, *FIGURES)


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
    "[0.1 + 0.2, 3, 1234567.25, 'x', null].map(figure)": ["0.30000000000000004", "3", "1234567.25", "x", ""],
    "[0.1 + 0.2, 3, 1234567.25, 99999.5, 1e-9 / 3, 1.5e300].map(rounded)": [
        *("0.3", "3", "1234567", "99999.5", "3.33333e-10", "1.5e+300"),
    ],
    "[middle('abcdefgh', 8), middle('abcdefghi', 8), middle('abcdefghi', 7)]": ["abcdefgh", "abcd…ghi", "abc…ghi"],
    "brief({expires: 1796725775740368, secret: 'x', digest: 'f'.repeat(64)})": (
        f"expires 2026-12-08 10:29 UTC, digest {'f' * 12}"
    ),
    f"said({json.dumps(json.dumps({'predicate': {'verdict': 'clean', 'reports': [{'verdict': 'found'}]}}))})": {
        "predicate": {"verdict": "clean", "reports": [{"verdict": "found"}]},
        "keys": [],
        "verdict": "clean, found",
    },
    f"said({json.dumps(ENVELOPE)})": {"predicate": {"verdict": "ü"}, "keys": ["k1"], "verdict": "ü"},
    'quoted("it\'s")': "'it\\'s'",
    "brief({a: '', b: [], c: {}, d: 0, e: 'x', f: {g: 1}})": 'd 0, e x, f {"g":1}',
    "brief({a: 'x'.repeat(500)}).length": 160,
    "brief(undefined)": "",
    "route('#/version/a%2Fb/1.0.0')": ["version", "a/b", "1.0.0"],
    "route('#/%ff')": [""],
    "route('')": [""],
    "route(link('model', 'a b/c%'))": ["model", "a b/c%"],
    "when('2026-11-30T10:20:30Z')": "2026-11-30 10:20 UTC",
}
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node runs the page's functions")
FUNCTIONS = PAGE.partition("<script>")[2].partition("// From here on the page itself.")[0]


def node(script):
    done = subprocess.run(["node", "-e", f"{FUNCTIONS}\n{script}"], capture_output=True, check=True)
    return json.loads(done.stdout)


@needs_node
def test_what_is_drawn_follows_from_what_the_registry_says():
    assert dict(zip(CASES, node(f"console.log(JSON.stringify([{', '.join(CASES)}]))"), strict=True)) == CASES


HISTORIES = ([], [1], [*range(1, 61)], [*range(1, 40), 90_000], [*range(5_000, 30_000)], [*range(1, 200_001)])


@needs_node
@pytest.mark.parametrize("own", HISTORIES, ids=["none", "old", "many old", "scattered", "dense", "all"])
def test_the_last_events_of_a_model_are_found_however_long_ago_they_were(own):
    script = """
        const page = (after) => {
            const found = OWN.filter((seq) => seq > after).map((seq) => ({ seq }));
            return { events: found.slice(0, 1000), next: found.length > 1000 ? found[999].seq : undefined };
        };
        newest(200000, 50, page).then((found) => console.log(JSON.stringify(found.map((one) => one.seq))));
    """
    steps = (
        f"Array.from({{length: {len(own)}}}, (_, at) => at + {own[0]})"
        if own and own[-1] - own[0] + 1 == len(own)
        else own
    )
    assert node(script.replace("OWN", f"({steps})")) == own[-50:][::-1]


def test_the_page_loads_nothing_and_writes_no_markup():
    assert "innerHTML" not in PAGE
    assert "insertAdjacentHTML" not in PAGE
    assert PAGE.count("://") == PAGE.count("http://www.w3.org/2000/svg") == 1
    assert browse(None).headers["content-security-policy"].startswith("default-src 'none'; script-src 'sha256-")
