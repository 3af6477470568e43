"""Two processes of one server: what is said to one counts in both, and a file that changes counts without a restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager

import pytest

from vitrify.testing.lane_models import until

pytestmark = pytest.mark.slow

BODY = json.dumps({"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}).encode()
ASKED = 40
"""So many connections find both processes."""


class Running:
    def __init__(self, url):
        self.url = url

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def versions(self, key=""):
        """Ask over many connections, and return the versions that answered."""
        found = set()
        for _ in range(ASKED):
            request = urllib.request.Request(self.url + "/v2/models/m/infer", BODY, {"x-vitrify-key": key})
            with urllib.request.urlopen(request, timeout=60) as answer:
                found.add(json.loads(answer.read())["model_version"])
        return found

    def decided(self):
        """Return what was decided, in order."""
        return [event["what"] for event in self.call("GET", "/admin/events")]

    def states(self):
        """Ask over many connections which versions are ready."""
        return {
            tuple(sorted(one["version"] for one in self.call("GET", "/admin/models") if one["state"] == "READY"))
            for _ in range(ASKED)
        }


@contextmanager
def running(shelf, config):
    environment = {**os.environ, "VITRIFY_HOME": str(shelf.root.parent)}
    command = [sys.executable, "-c", "from vitrify.cli import main; main()", "serve", "--json", "--config", config]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        yield Running(json.loads(process.stdout.readline())["http"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("plane", ["python", "auto"])
def test_every_process_and_a_restart_has_what_was_said_to_one(tmp_path_factory, tmp_path, plane):
    import rolled

    store = rolled.shelf(tmp_path_factory.mktemp("home") / "store")
    config = tmp_path / "serve.toml"
    head = f'[server]\nport = 0\ngrpc_port = -1\nprocesses = 2\nplane = "{plane}"\nstate = "{tmp_path}/state.json"\n'
    one, two = ('[[models]]\nreference = "m:1.0"\n', '[[models]]\nreference = "m:2.0"\n')
    config.write_text(head + one)
    with running(store, str(config)) as server:
        assert server.versions() == {"1.0"}
        server.call("POST", "/admin/models", {"reference": "m:3.0"})
        until(lambda: server.states() == {("1.0", "3.0")}, "both have loaded it")
        server.call("PUT", "/admin/routes/m", {"weights": {"1.0": 1}})
        until(lambda: server.versions() == {"1.0"}, "both follow the route")
        server.call("PUT", "/admin/routes/m", {"weights": {"1.0": 1, "3.0": 1}})
        until(lambda: server.versions() == {"1.0", "3.0"}, "both share")
        until(lambda: len(server.versions("ann")) == 1, "a key stays with its version")
        config.write_text(head + one + two)
        until(lambda: server.states() == {("1.0", "2.0", "3.0")}, "both have read the file")
        server.call("DELETE", "/admin/models/m/versions/1.0")
        until(lambda: server.states() == {("2.0", "3.0")}, "both have let it go")
        canary = {"version": "2.0", "steps": [0.5], "seconds": 0, "requests": 5, "drift": 0, "latency": 1e6}
        server.call("PUT", "/admin/routes/m", {"weights": {"3.0": 1}, "canary": canary})
        until(lambda: server.versions() and server.decided()[-3:] == ["routed", "began", "promoted"], "it is promoted")
        until(lambda: server.versions() == {"2.0"}, "the canary has all requests of both")
    with running(store, str(config)) as server:
        assert server.states() == {("2.0", "3.0")}
        assert server.versions() == {"2.0"}
