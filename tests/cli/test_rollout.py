"""``vitrify rollout`` against a server over a socket."""

from __future__ import annotations

import hashlib
import json

import pytest
from rolled import AdminServer, shelf

from vitrify.serve.settings import ClientSettings, RouteSettings

TOKEN = "a token of sixteen"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return shelf(tmp_path_factory.mktemp("shelf"))


def started(store):
    clients = (
        ClientSettings(name="root", token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest(), admin=True),
        ClientSettings(name="ann", token_sha256=hashlib.sha256(b"ann").hexdigest()),
    )
    return AdminServer(store, clients, {"m": RouteSettings(weights={"1.0": 1.0})})


@pytest.fixture
def server(store, monkeypatch):
    server = started(store)
    monkeypatch.setenv("VITRIFY_SERVER", server.url)
    yield server
    server.close()
    assert not server.faults


@pytest.fixture(scope="module")
def standing(store):
    """A server that no test changes."""
    server = started(store)
    yield server
    server.close()
    assert not server.faults


@pytest.fixture
def told_of_standing(standing, monkeypatch):
    monkeypatch.setenv("VITRIFY_SERVER", standing.url)


@pytest.fixture
def rollout(call, monkeypatch):
    monkeypatch.setenv("VITRIFY_SERVE_TOKEN", TOKEN)

    def rollout(*arguments, code=0):
        got, out, err = call("rollout", *arguments)
        assert got == code, err
        return out if code == 0 else err

    return rollout


@pytest.mark.usefixtures("server")
def test_models_are_shown_loaded_and_unloaded(rollout):
    assert rollout("show").splitlines()[1].split()[:4] == ["m", "1.0", "READY", "100.0%"]
    assert rollout("load", "m:3.0", "--batch", 4) == "m 3.0 is ready\n"
    assert json.loads(rollout("load", "m:2.0", "--name", "copy", "--version", "7", "--json"))["version"] == "7"
    assert rollout("unload", "m", "2.0") == "unloaded m 2.0\n"
    assert rollout("unload", "copy") == "unloaded copy\n"
    assert json.loads(rollout("unload", "m", "3.0", "--json")) == {"model": "m", "version": "3.0", "unloaded": True}
    states = {(one["name"], one["version"]): one["state"] for one in json.loads(rollout("show", "--json"))}
    assert [one for one, state in states.items() if state == "READY"] == [("m", "1.0")]


def test_weights_canary_promote_and_rollback(rollout, server):
    assert "2.0  25.00%" in rollout("weights", "m", "1.0=3", "2.0=1")
    told = rollout("rollback", "m", code=14)
    assert "no version to go back to" in told
    shown = json.loads(rollout("canary", "m", "2.0", "--steps", "0.5,1", "--requests", 7, "--drift", 0, "--json"))
    assert shown["route"]["canary"] == {"version": "2.0", "steps": [0.5, 1.0], "requests": 7, "drift": 0.0}
    assert "canary  2.0, waits: it has not begun" in rollout("show", "m")
    server.rolled.rollout.canaries.tick()
    assert "2.0     50.00%" in rollout("show", "m")
    assert "canary  2.0, step 1 of 2: it has just begun" in rollout("show", "m")
    assert json.loads(rollout("rollback", "m", "--json"))["shares"] == {"1.0": 1.0}
    shown = rollout("promote", "m", "2.0", "--reason", "it is better")
    assert "2.0  100.00%" in shown
    assert "it is better" in shown.splitlines()[-1]


@pytest.mark.usefixtures("server")
def test_a_shadow_is_set_reported_and_taken_back(rollout):
    assert "2.0  sees copies of 50% of the requests" in rollout("shadow", "m", "2.0", "--fraction", 0.5)
    assert rollout("shadow", "m").startswith("# Shadow traffic of m")
    assert json.loads(rollout("shadow", "m", "--json"))["pairs"] == []
    route = json.loads(rollout("shadow", "m", "2.0", "--json"))["route"]
    assert route["shadow"] == [{"version": "2.0", "fraction": 1.0}]
    assert "shadow" not in json.loads(rollout("shadow", "m", "--off", "--json"))["route"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("show", "nobody"), 3, "nobody"),
        (("show", "a/b"), 3, "a/b"),
        (("weights", "m", "1.0"), 2, "VERSION=WEIGHT"),
        (("weights", "m", "1.0=many"), 2, "many"),
        (("weights", "m", "1.0=nan"), 2, "nan"),
        (("weights", "m", "1.0=0"), 2, "weights"),
        (("weights", "m", "9.9=1"), 3, "9.9"),
        (("canary", "m", "9.9"), 3, "9.9"),
        (("canary", "m", "2.0", "--steps", "1,0.5"), 2, "rising"),
        (("canary", "m", "2.0", "--steps", "half"), 2, "half"),
        (("promote", "m"), 14, "name the version"),
        (("load", "absent"), 3, "absent"),
        (("unload", "m", "9.9"), 3, "9.9"),
        (("show", "--token", "ann"), 15, "'ann' may not"),
        (("show", "--token", "nobody's"), 16, "nobody's"),
        (("show", "--server", "http://127.0.0.1:1"), 18, "nobody answers"),
        (("show", "--server", "ftp://127.0.0.1"), 2, "address of a server"),
        (("show", "--server", "http://example.org"), 2, "plain HTTP"),
    ],
)
@pytest.mark.usefixtures("told_of_standing")
def test_errors_are_those_of_the_server_with_their_own_exit_code(rollout, arguments, code, said):
    assert said in rollout(*arguments, code=code)


def test_a_server_of_another_kind_is_said(rollout, monkeypatch):
    import http.server
    import threading

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = b"<html>" if "models" in self.path else b"[1]"
            self.send_response(200 if "models" in self.path else 500)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    try:
        monkeypatch.setenv("VITRIFY_SERVER", f"http://127.0.0.1:{other.server_port}")
        assert "does not answer as vitrify serve does" in rollout("show", code=7)
        assert "[1]" in rollout("show", "m", code=1)
    finally:
        other.shutdown()
        thread.join()
        other.server_close()


ENSEMBLES = """
[[ensembles]]
name = "outer"
outputs = { end = "a.Y" }
[ensembles.steps.a]
model = "inner"

[[ensembles]]
name = "inner"
version = "2"
outputs = { Y = "a.Y" }
[ensembles.steps.a]
model = "m"
version = "1.0"
"""


@pytest.mark.usefixtures("server")
def test_ensembles_are_loaded_from_a_file(rollout, tmp_path):
    file = tmp_path / "ensembles.toml"
    file.write_text(ENSEMBLES)
    assert rollout("load", "--ensembles", file) == "inner 2 is ready\nouter 1 is ready\n"
    assert [one["name"] for one in json.loads(rollout("load", "--ensembles", file, "--json"))] == ["inner", "outer"]


@pytest.mark.usefixtures("told_of_standing")
@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("", (), "has no ensembles"),
        ("[[ensembles]]\nname = 'e'", (), "steps"),
        (ENSEMBLES, ("m:1.0",), "found reference and ensembles"),
        (ENSEMBLES, ("--batch", 4), "found rows and ensembles"),
        (ENSEMBLES.replace('"m"', '"outer"'), (), "in a circle"),
    ],
)
def test_what_is_no_file_of_ensembles_is_refused(rollout, tmp_path, text, more, said):
    file = tmp_path / "ensembles.toml"
    file.write_text(text)
    assert said in rollout("load", "--ensembles", file, *more, code=2)


@pytest.mark.usefixtures("told_of_standing")
def test_a_load_of_nothing_is_refused(rollout):
    assert "name a reference" in rollout("load", code=2)
