"""Kubernetes manifests: known to the Python client's own types, read by our own server, the same every time."""

from __future__ import annotations

import tomllib

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from vitrify import package
from vitrify.core import reference
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.package import _cluster
from vitrify.serve.server import check
from vitrify.serve.settings import Settings
from vitrify.serve.settings_file import read

IMAGE = "registry.example.com/vitrify@sha256:" + "a" * 64
SOURCE = "oci://registry.example.com:5000/team/churn"
WHERE = {"image": IMAGE, "source": SOURCE}
KINDS = {
    "serviceaccount.yaml": "V1ServiceAccount",
    "configmap.yaml": "V1ConfigMap",
    "deployment.yaml": "V1Deployment",
    "service.yaml": "V1Service",
    "hpa.yaml": "V2HorizontalPodAutoscaler",
    "pdb.yaml": "V1PodDisruptionBudget",
    "networkpolicy.yaml": "V1NetworkPolicy",
}


@pytest.fixture
def manifests(churn, tmp_path):
    """Return a function that exports with some options, and reads what was written."""

    def make(name="out", **options):
        package.export(churn, tmp_path / name, "kubernetes", **WHERE, **options)
        return {one.name: yaml.safe_load(one.read_bytes()) for one in (tmp_path / name).iterdir()}

    return make


def test_every_field_is_one_that_kubernetes_has(manifests):
    client = pytest.importorskip("kubernetes.client")
    from typed_manifests import problems

    made = manifests(login="registry-login", clients={"shop": "b" * 64}, allow=["acme.Scale"])
    for file, kind in KINDS.items():
        assert problems(made[file], kind, [client]) == []


def test_a_field_that_kubernetes_does_not_have_would_be_found(manifests):
    client = pytest.importorskip("kubernetes.client")
    from typed_manifests import problems

    made = manifests()["deployment.yaml"]
    made["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    made["spec"]["template"]["spec"]["volumes"] = {}
    del made["spec"]["selector"]
    found = "\n".join(problems(made, "V1Deployment", [client]))
    assert "readinesProbe" in found
    assert "volumes: no list" in found


def test_the_kustomization_lists_every_file(manifests):
    made = manifests(monitor=True)
    assert sorted(made["kustomization.yaml"]["resources"]) == sorted(made.keys() - {"kustomization.yaml"})
    assert "servicemonitor.yaml" in made
    assert "servicemonitor.yaml" not in manifests("plain")


def test_figures_are_asked_for_with_a_token_where_clients_have_one(manifests):
    for name, clients in (("open", {}), ("closed", {"prometheus": "b" * 64})):
        (endpoint,) = manifests(name, monitor=True, clients=clients)["servicemonitor.yaml"]["spec"]["endpoints"]
        assert ("authorization" in endpoint) == bool(clients)


def test_everything_says_whose_bytes_it_serves(manifests, churn):
    for file, one in manifests(monitor=True).items():
        if file != "kustomization.yaml":
            assert one["metadata"]["annotations"]["vitrify/digest"] == str(churn.digest)


def test_the_settings_are_those_of_the_server(manifests, churn, tmp_path):
    made = manifests(clients={"shop": "b" * 64}, allow=["acme.Scale", "acme.Log"])
    text = made["configmap.yaml"]["data"][_cluster.SETTINGS_FILE]
    (tmp_path / "serve.toml").write_text(text)
    settings = read(tmp_path / "serve.toml")
    check(settings)
    (model,) = settings.models
    assert (model.reference, model.version) == (str(churn.digest), "1.2.0")
    assert model.allow == ("acme.Log", "acme.Scale")
    assert settings.clients[0].name == "shop"
    assert (settings.server.port, settings.server.grpc_port) == (8080, 8081)


@given(names=st.lists(st.text(min_size=1, max_size=20), max_size=3, unique=True))
def test_any_text_survives_the_settings(churn, names):
    place = _cluster.Place(**WHERE, clients=dict.fromkeys(names, "c" * 64))
    try:
        text = _cluster.settings(churn, place).encode()
    except UnicodeEncodeError:  # half a character, which no file holds
        return
    raw = tomllib.loads(text.decode())
    assert [one["name"] for one in raw.get("clients", [])] == sorted(names)
    Settings.from_builtins(raw, where="the settings")


def test_what_is_pulled_is_the_very_artifact(manifests, churn):
    pod = manifests()["deployment.yaml"]["spec"]["template"]["spec"]
    (pull,) = pod["initContainers"]
    assert pull["command"] == ["vitrify", "pull", f"{SOURCE}@{churn.digest}", "team/churn:1.2.0"]
    assert reference.remote(pull["command"][2]).digest == churn.digest


def test_the_commands_are_those_of_the_command_line(manifests):
    from vitrify.cli.pull import command as pull
    from vitrify.cli.serve import command as serve

    pod = manifests()["deployment.yaml"]["spec"]["template"]["spec"]
    pulled, served = pod["initContainers"][0]["command"], pod["containers"][0]["command"]
    assert pull.make_context("pull", pulled[2:]).params["name"] == "team/churn:1.2.0"
    assert [parameter.name for parameter in serve.params if "--config" in parameter.opts] == ["config"]
    assert served[:3] == ["vitrify", "serve", "--config"]


def test_a_pod_may_do_nothing_but_its_work_and_has_time_to_end(manifests):
    template = manifests()["deployment.yaml"]["spec"]["template"]
    pod = template["spec"]
    for container in (*pod["initContainers"], *pod["containers"]):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["runAsNonRoot"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
        homes = {one["value"] for one in container["env"] if one["name"] in {"HOME", "VITRIFY_HOME", "TMPDIR"}}
        assert homes <= writable
    pause = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > pause + _cluster.DRAIN_SECONDS


def test_new_settings_are_new_pods(manifests):
    first, second = (
        manifests(str(at), allow=allow)["deployment.yaml"]["spec"]["template"]["metadata"]["annotations"]
        for at, allow in enumerate([[], ["acme.Scale"]])
    )
    assert first["vitrify/settings"] != second["vitrify/settings"]


def test_the_registry_s_port_is_open_and_its_password_is_mounted(manifests):
    made = manifests(login="registry-login")
    assert {"protocol": "TCP", "port": 5000} in made["networkpolicy.yaml"]["spec"]["egress"][1]["ports"]
    pod = made["deployment.yaml"]["spec"]["template"]["spec"]
    assert {"name": "DOCKER_CONFIG", "value": _cluster.LOGIN} in pod["initContainers"][0]["env"]


def test_the_same_artifact_gives_the_same_bytes(churn, tmp_path, tree):
    for name in ("a", "b"):
        package.export(churn, tmp_path / name, "kubernetes", **WHERE, clients={"b": "b" * 64, "a": "a" * 64})
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"image": ""}, "image"),
        ({"image": "a b"}, "image"),
        ({"source": ""}, "pushed"),
        ({"source": "ghcr.io/team/churn"}, "OCI registry"),
        ({"source": f"{SOURCE}@sha256:{'0' * 64}"}, "names sha256"),
        ({"replicas": (0, 1)}, "replicas"),
        ({"replicas": (3, 2)}, "replicas"),
        ({"clients": {"shop": "secret"}}, "SHA-256"),
        ({"clients": {"": "a" * 64}}, "client"),
        ({"login": "a/b"}, "Secret"),
        ({"rows": 3}, "no option rows"),
    ],
)
def test_what_no_cluster_would_take_is_refused_and_nothing_is_written(churn, tmp_path, options, said):
    with pytest.raises(UsageError, match=said):
        package.export(churn, tmp_path / "out", "kubernetes", **{**WHERE, **options})
    assert not (tmp_path / "out").exists()


def test_a_model_that_nothing_opens_is_refused(churn, tmp_path, monkeypatch):
    document = churn.document.replace(runtime=None)
    monkeypatch.setitem(churn.__dict__, "document", document)
    with pytest.raises(UnsupportedModelError, match="no runtime"):
        package.export(churn, tmp_path / "out", "kubernetes", **WHERE)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("team/churn:1", "team-churn"),
        ("9lives", "model-9lives"),
        ("A.b_C", "a-b-c"),
        ("x" * 100, "x" * 40),
        ("x" * 39 + "-y", "x" * 39),
    ],
)
def test_a_name_is_one_that_clusters_take(churn, name, expected):
    from dataclasses import replace

    from vitrify.package._served import dns_name

    assert dns_name(replace(churn, name=name)) == expected
