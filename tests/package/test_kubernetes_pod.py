"""The commands of an exported pod, run one after the other as its kubelet would run them: pull, serve, end.

There is no cluster and no container here: the volumes are folders, and the ports are free ones.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import httpx
import numpy as np
import pytest
import yaml
from served_models import ROWS, outputs, seal, signature, times
from stores._small_registry import small_registry

import vitrify
from vitrify import package, stores
from vitrify.package import _cluster
from vitrify.stores.oci_layout import OciLayout

VITRIFY = [sys.executable, "-c", "from vitrify.cli import main; main()"]


@pytest.fixture
def pushed(tmp_path):
    """Return an artifact, and where it was pushed."""
    store = OciLayout(tmp_path / "store")
    seal(store, "team/times:1.2.0", times(2), signature(), ({"X": ROWS}, outputs(2)))
    artifact = vitrify.open("team/times:1.2.0", store=store)
    with small_registry() as registry:
        source = f"oci://{registry.host}/team/times"
        stores.push(store, artifact.digest, f"{source}:1.2.0")
        yield artifact, source


@pytest.mark.slow
def test_a_pod_pulls_by_digest_serves_and_ends_when_it_is_told(pushed, tmp_path):
    artifact, source = pushed
    package.export(artifact, tmp_path / "out", "kubernetes", image="vitrify:1", source=source)
    read = {one.name: yaml.safe_load(one.read_bytes()) for one in (tmp_path / "out").iterdir()}
    pod = read["deployment.yaml"]["spec"]["template"]["spec"]
    settings = tmp_path / _cluster.SETTINGS_FILE
    settings.write_text(read["configmap.yaml"]["data"][_cluster.SETTINGS_FILE])
    volumes = {_cluster.HOME: tmp_path / "home", _cluster.SCRATCH: tmp_path / "scratch"}
    for volume in volumes.values():
        volume.mkdir()
    environment = {**os.environ}
    for one in pod["containers"][0]["env"]:
        environment[one["name"]] = str(volumes.get(one["value"], one["value"]))

    _, *pull = pod["initContainers"][0]["command"]
    done = subprocess.run([*VITRIFY, *pull], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    command = [*VITRIFY, "serve", "--config", str(settings), "--host", "127.0.0.1", "--port", "0", "--grpc-port", "0"]
    with subprocess.Popen([*command, "--json"], env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            place = json.loads(server.stdout.readline())["http"]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                path = pod["containers"][0][probe]["httpGet"]["path"]
                assert httpx.get(place + path).status_code == 200
            body = {"inputs": [{"name": "X", "shape": [1, 4], "datatype": "FP32", "data": ROWS[1].tolist()}]}
            answer = httpx.post(f"{place}/v2/models/team-times/infer", json=body).json()
            assert answer["model_version"] == "1.2.0"
            found = {one["name"]: np.array(one["data"]) for one in answer["outputs"]}
            assert np.array_equal(found["Y"], outputs(2, ROWS[1:2])["Y"][0])
            server.send_signal(signal.SIGTERM)
            assert server.wait(pod["terminationGracePeriodSeconds"]) == 0
        finally:
            server.kill()
