"""``vitrify serve``: what the command line makes of its words, and what is refused before anything is opened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from served_models import multiplier

from vitrify.cli import main
from vitrify.cli.serve import _settings
from vitrify.core.errors import UsageError
from vitrify.serve.server import check
from vitrify.serve.settings import ServerSettings, Settings
from vitrify.stores.oci_layout import OciLayout

VITRIFY = Path(sys.executable).with_name("vitrify")
NOTHING = {"rows": None, "lazy": False, "runtime": None, "allow": ()}


@pytest.mark.parametrize(
    ("text", "name", "reference"),
    [
        ("churn", "", "churn"),
        ("old=churn:1.0", "old", "churn:1.0"),
        ("oci://host/churn:1?x=1", "", "oci://host/churn:1?x=1"),
        ("far=oci://host/churn:1", "far", "oci://host/churn:1"),
        ("churn@production", "", "churn@production"),
    ],
)
def test_a_model_may_be_given_another_name(text, name, reference):
    (model,) = _settings((text,), None, dict(NOTHING)).models
    assert (model.name, model.reference) == (name, reference)


def test_options_count_more_than_the_file(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text(
        '[server]\nport = 1234\ngrpc_port = -1\n[[models]]\nreference = "one"\n[models.batching]\nrows = 8\n'
    )
    settings = _settings(("two",), str(path), {**NOTHING, "rows": 4, "port": 0, "host": None})
    assert (settings.server.port, settings.server.grpc_port, settings.server.host) == (0, -1, "127.0.0.1")
    assert [(one.reference, one.batching.rows) for one in settings.models] == [("one", 8), ("two", 4)]


def test_nothing_to_serve_is_said():
    with pytest.raises(UsageError, match="nothing to serve"):
        _settings((), None, dict(NOTHING))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[server", "no TOML"),
        ("[server]\nprot = 1", "prot"),
        ("[server]\nport = 'x'", "port"),
        ("[[models]]\nname = 'x'", "reference"),
        ("[[models]]\nreference = 'x'\n[models.batching]\nrows = 0", "rows"),
        ("\xff", "no TOML"),
    ],
)
def test_a_file_that_means_nothing_is_named(tmp_path, content, said, capsys):
    path = tmp_path / "serve.toml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--config", str(path)])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert said in told
    assert "serve.toml" in told


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"host": "0.0.0.0"}, "plain HTTP"),
        ({"host": "0.0.0.0", "certificate": "c", "key": "k"}, "everybody"),
        ({"certificate": "c"}, "its key"),
        ({"client_authority": "a"}, "over TLS"),
        ({"port": -1, "grpc_port": -1}, "neither"),
    ],
)
def test_what_is_unsafe_is_refused(server, said):
    with pytest.raises(UsageError, match=said):
        check(Settings(server=ServerSettings(**server)))


@pytest.mark.parametrize("server", [{}, {"host": "::1"}, {"host": "localhost"}, {"host": "0.0.0.0", "insecure": True}])
def test_what_is_safe_is_not(server):
    check(Settings(server=ServerSettings(**server)))


@pytest.mark.slow
@pytest.mark.parametrize("plane", ["python", "native"])
@pytest.mark.parametrize("processes", [1, 2])
def test_it_serves_until_it_is_told_to_end(tmp_path, plane, processes):
    multiplier(OciLayout(tmp_path / "store"), "times", 3.0)
    environment = {**os.environ, "VITRIFY_HOME": str(tmp_path)}
    command = [VITRIFY, "serve", "twice=times", "--port", "0", "--grpc-port", "0", "--json"]
    command += ["--plane", plane, "--processes", str(processes)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    try:
        listening = json.loads(process.stdout.readline())
        assert listening["plane"] == plane
        body = {"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
        for _ in range(8):
            request = urllib.request.Request(
                f"{listening['http']}/v2/models/twice/infer", json.dumps(body).encode(), {"Connection": "close"}
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                assert json.load(response)["outputs"][0]["data"] == [3, 6, 9, 12]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        _, said = process.communicate()
    assert b"Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_a_model_that_is_not_there_ends_it_with_a_reason(tmp_path, processes):
    environment = {**os.environ, "VITRIFY_HOME": str(tmp_path)}
    command = [VITRIFY, "serve", "nobody", "--port", "0", "--grpc-port", "-1"]
    done = subprocess.run(
        [*command, "--processes", str(processes)], capture_output=True, env=environment, timeout=120, check=False
    )
    assert done.returncode == (3 if processes == 1 else 18)
    assert b"nobody" in done.stderr
    assert b"Traceback" not in done.stderr
