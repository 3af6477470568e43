"""KServe's resources: known to its SDK's types; the command that they make is one of ours."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from vitrify import package
from vitrify.cli.serve import _settings, command
from vitrify.package import kserve

IMAGE = "registry.example.com/vitrify:1"
SOURCE = "oci://registry.example.com/team/churn"
TYPED = """
import importlib.util, json, sys, types
# The SDK itself brings a second copy of the protocol's descriptors; its types alone do not.
parent = types.ModuleType("kserve")
parent.__path__ = importlib.util.find_spec("kserve").submodule_search_locations
sys.modules["kserve"] = parent
import kubernetes.client
from kserve import models
sys.path.insert(0, sys.argv[1])
from typed_manifests import problems
for kind, data in json.load(sys.stdin):
    for one in problems(data, kind, [models, kubernetes.client]):
        print(one)
"""


@pytest.fixture
def made(churn, tmp_path):
    options = {"image": IMAGE, "source": SOURCE, "allow": ["acme.Scale"], "login": "registry-login"}
    package.export(churn, tmp_path / "out", "kserve", **options)
    return {one.name: yaml.safe_load(one.read_bytes()) for one in (tmp_path / "out").iterdir()}


def test_every_field_is_one_that_kserve_has(made):
    pytest.importorskip("kubernetes")
    if importlib.util.find_spec("kserve") is None:
        pytest.skip("no kserve")
    kinds = [
        ("V1alpha1ServingRuntime", made["servingruntime.yaml"]),
        ("V1alpha1ServingRuntime", made["servingruntime-grpc.yaml"]),
        ("V1beta1InferenceService", made["inferenceservice.yaml"]),
    ]
    script = [sys.executable, "-c", TYPED, str(Path(__file__).parent.parent)]
    done = subprocess.run(script, input=json.dumps(kinds), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_service_s_arguments_behind_the_runtime_s_are_a_command_of_ours(made, churn):
    (container,) = made["servingruntime.yaml"]["spec"]["containers"]
    service = made["inferenceservice.yaml"]["spec"]["predictor"]["model"]
    assert container["command"] == ["vitrify", "serve"]
    options = command.make_context("serve", [*container["args"], *service["args"]]).params
    options.pop("as_json")
    settings = _settings(options.pop("references"), options.pop("config"), options)
    (model,) = settings.models
    assert model.reference == f"{SOURCE}@{churn.digest}"
    assert (model.name, model.allow) == ("team-churn", ("acme.Scale",))
    assert (settings.server.host, settings.server.port, settings.server.grpc_port) == ("0.0.0.0", 8080, -1)


def test_the_runtime_of_grpc_has_one_port_and_asks_for_health_over_rest(made):
    (container,) = made["servingruntime-grpc.yaml"]["spec"]["containers"]
    assert container["ports"] == [{"name": "h2c", "containerPort": 8081, "protocol": "TCP"}]
    assert container["readinessProbe"]["httpGet"]["port"] == 8080
    assert made["servingruntime-grpc.yaml"]["spec"]["protocolVersions"] == ["grpc-v2"]


def test_the_service_names_a_runtime_and_a_format_that_are_there(made):
    model = made["inferenceservice.yaml"]["spec"]["predictor"]["model"]
    runtime = made["servingruntime.yaml"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert model["modelFormat"] in [
        {"name": one["name"], "version": one["version"]} for one in runtime["spec"]["supportedModelFormats"]
    ]


def test_the_formats_are_those_that_runtimes_open():
    assert {"onnx", "skops", "torchscript", "saved-model"} <= set(kserve.formats())
    assert kserve.formats() == sorted(set(kserve.formats()))


def test_the_digest_is_in_the_annotations(made, churn):
    service = made["inferenceservice.yaml"]
    assert service["metadata"]["annotations"]["vitrify/digest"] == str(churn.digest)


def test_the_same_artifact_gives_the_same_bytes(churn, tmp_path, tree):
    for name in ("a", "b"):
        package.export(churn, tmp_path / name, "kserve", image=IMAGE, source=SOURCE)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")
