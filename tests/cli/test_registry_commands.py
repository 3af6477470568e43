"""The commands of the registry: a model's life from its registration to its rollback, as text and as JSON."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import vitrify
from vitrify.checks.records import Record
from vitrify.core.errors import ReferenceNotFoundError


@pytest.fixture
def run(call, shelf, tmp_path, monkeypatch):
    """Run one command on a registry of its own; return what ``--json`` prints, or the text."""
    monkeypatch.setenv("VITRIFY_HOME", str(tmp_path))
    monkeypatch.setenv("VITRIFY_REGISTRY", str(tmp_path / "registry"))

    def one(*arguments, fails=0, text=False):
        stored = ["--store", shelf] if arguments[0] in {"register", "replay", "variant"} else []
        code, out, err = call(*arguments, *stored, *([] if text else ["--json"]))
        assert code == fails, err
        return (err or out) if fails else out if text else json.loads(out or "null")

    return one


@pytest.fixture
def registered(run):
    run(
        "register",
        "line",
        "risk/churn:1.0.0",
        "--metric",
        "auc=0.9",
        "--tag",
        "team=risk",
        "--dataset",
        "train=sha256:aa",
    )
    return run("register", "line", "risk/churn:1.1.0", "--commit", "c0ffee", "--description", "with age")


def test_a_version_is_registered_shown_and_found(run, registered):
    assert (registered["version"], registered["stage"], registered["number"]) == ("1.1.0", "development", 2)
    assert run("show", "risk/churn:1")["metrics"] == {"auc": 0.9}
    assert run("show", "risk/churn")["version"] == "1.1.0"
    assert [one["version"] for one in run("search", "tags.team", "=", "risk")] == ["1.0.0"]
    (model,) = run("models", "risk/*")
    assert (model["name"], model["versions"]) == ("risk/churn", 2)
    shown = run("show", "risk/churn:1.0.0", text=True)
    assert "auc=0.9" in shown
    assert "urn:vitrify:attestation:trial:v1" in shown
    assert "risk/churn:1.1.0" in run("search", "churn", text=True)


def test_promotion_rollback_and_standing(run, registered):
    assert run("promote", "risk/churn:1.0.0", "production")["stage"] == "production"
    assert run("promote", "risk/churn:1.1.0", "production", "--expected", "1.0.0")["stage"] == "production"
    assert "1.1.0 in production, not 1.0.0" in run(
        "promote", "risk/churn:1.0.0", "production", "--expected", "1.0.0", fails=14
    )
    assert run("rollback", "risk/churn", "--comment", "too slow")["version"] == "1.0.0"
    assert run("yank", "risk/churn:1.1.0", "--reason", "leaks the label")["status"] == "yanked"
    assert "leaks the label" in run("promote", "risk/churn:1.1.0", "staging", fails=14)
    assert run("restore", "risk/churn:1.1.0")["status"] == "active"
    assert run("deprecate", "risk/churn:1.1.0")["status"] == "deprecated"
    assert "production" in run("yank", "risk/churn:1.0.0", fails=14)


def test_a_request_is_made_listed_and_withdrawn(run, registered):
    request = run("promote", "risk/churn:1.1.0", "production", "--request", "--comment", "please")
    assert request["state"] == "open"
    assert "somebody else has to decide" in run("promotion", "approve", request["id"], fails=15)
    assert "risk/churn:1.1.0" in run("promotion", "list", "--state", "open", text=True)
    assert run("promotion", "withdraw", request["id"])["state"] == "withdrawn"
    assert run("promotion", "list", "--state", "open") == []
    assert "is withdrawn" in run("promotion", "reject", request["id"], fails=14)


def test_aliases_and_tags(run, registered):
    assert run("alias", "risk/churn:1.0.0", "champion")["aliases"] == ["champion"]
    assert run("show", "risk/churn@champion")["version"] == "1.0.0"
    assert run("tag", "risk/churn@champion", "team-", "tier=1", "--description", "the first")["tags"] == {"tier": "1"}
    assert run("tag", "risk/churn", "owner=ann")["tags"] == {"owner": "ann"}
    run("alias", "risk/churn", "champion", "--remove")
    assert "no version '@champion'" in run("show", "risk/churn@champion", fails=3)


def test_what_is_said_is_changed(run, registered, tmp_path):
    card = tmp_path / "card.md"
    card.write_text("# Churn")
    changed = run("edit", "risk/churn", "--owner", "bob", "--licence", "MIT", "--description", "who leaves")
    assert (changed["owner"], changed["licence"], changed["description"]) == ("bob", "MIT", "who leaves")
    assert "owner        bob" in run("edit", "risk/churn", "--licence", "BSD-3-Clause", text=True)
    assert run("edit", "risk/churn:1.0.0", "--card", card)["card"] == "# Churn"
    assert "a version, which has no owner" in run("edit", "risk/churn:1.0.0", "--owner", "bob", fails=2)
    assert "a model, which has no card" in run("edit", "risk/churn", "--card", card, fails=2)
    assert "nothing to change" in run("edit", "risk/churn", fails=2)


def test_a_model_is_renamed_and_given_up_piece_by_piece(run, registered):
    assert run("rename", "risk/churn", "leavers")["name"] == "leavers"
    assert run("show", "leavers:1.0.0")["metrics"] == {"auc": 0.9}
    run("promote", "leavers:1.0.0", "production")
    assert "in production" in run("delete", "leavers@production", fails=14)
    assert "a model with all its versions" in run("delete", "leavers", fails=2)
    assert "is one version" in run("delete", "leavers:1.1.0", "--all", fails=2)
    assert "with a version" in run("delete", "leavers", "--all", "--reason", "old", fails=2)
    assert run("delete", "leavers:1.1.0", "--reason", "wrong data") == {"deleted": "leavers:1.1.0"}
    assert run("show", "leavers:1.1.0")["reason"] == "wrong data"
    assert "wrong data" in run("promote", "leavers:1.1.0", "staging", fails=3)
    run("promote", "leavers:1.0.0", "archived")
    assert "deleted leavers" in run("delete", "leavers", "--all", text=True)
    assert run("models") == []


def test_where_a_version_runs_is_recorded(run, registered):
    run("promote", "risk/churn:1.0.0", "production")
    started = run("deployment", "start", "risk/churn@production", "eu-west", "--fact", "replicas=3")
    assert (started["version"], started["target"], started["facts"]) == ("1.0.0", "eu-west", {"replicas": "3"})
    assert "risk/churn:1.0.0  eu-west" in run("deployment", "list", text=True)
    assert "on eu-west since" in run("deployment", "end", started["id"], text=True)
    assert run("deployment", "list", "--model", "risk/churn") == []
    (ended,) = run("deployment", "list", "--all")
    assert ended["ended"]
    assert "deployment eu-west" in run("lineage", "risk/churn:1.0.0", text=True)
    assert "vitrify deployment list" in run("deployment", "end", "77", fails=3)


def test_lineage_as_text_json_and_picture(run, registered, tmp_path):
    assert {node["kind"] for node in run("lineage", "risk/churn:1.0.0")["nodes"]} == {
        *("dataset", "commit", "artifact", "version")
    }
    assert "dataset sha256:aa" in run("lineage", "risk/churn:1.0.0", text=True)
    picture = tmp_path / "churn.svg"
    run("lineage", "risk/churn", "-o", picture, text=True)
    assert "version risk/churn:1.1.0" in picture.read_text()


def test_predictions_are_replayed_from_the_registry(run, registered, shelf, tmp_path):
    from vitrify.stores.oci_layout import OciLayout

    artifact = vitrify.open("line", store=OciLayout(shelf))
    session = artifact.session()
    inputs = {field.name: np.ones((2, 3)) for field in session.signature.inputs}
    log = tmp_path / "log.jsonl"
    record = Record.of(artifact.digest, inputs, session.run(inputs))
    log.write_bytes(record.to_json() + b"\n")
    assert run("replay", log)["verdict"] == "clean"
    other = record.replace(outputs={name: [7.0, 7.0] for name in record.outputs})
    log.write_bytes(other.to_json())
    assert run("replay", log, fails=11)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("register", "nobody", "churn"), 3, "nobody"),
        (("register", "line", "churn", "--metric", "auc=high"), 2, "a metric is a number"),
        (("register", "line", "churn", "--tag", "x"), 2, "not a tag"),
        (("register", "line", "churn:one"), 2, "not a semantic version"),
        (("register", "line", "../churn"), 2, "not a valid artifact name"),
        (("show", "nobody"), 3, "no model is called 'nobody'"),
        (("search", "stage = "), 2, "at character"),
        (("promotion", "approve", "77"), 3, "no request has the number 77"),
        (("rollback", "nobody"), 3, "no model"),
    ],
)
def test_what_cannot_be_done_says_why(run, arguments, code, says):
    run("registry", "migrate")
    assert says in run(*arguments, fails=code)


@pytest.mark.parametrize(
    "arguments",
    [
        ("models",),
        ("search", "churn"),
        ("show", "churn"),
        ("lineage", "churn"),
        ("promotion", "list"),
        ("tag", "churn", "team=risk"),
        ("audit", "log"),
        ("audit", "verify"),
        ("registry", "token", "list"),
        ("registry", "gc"),
        ("pull", "churn"),
    ],
)
def test_where_no_registry_is_none_is_made(run, tmp_path, arguments):
    typo = tmp_path / "typo"
    assert f"there is no registry yet: {typo / 'registry.db'}" in run(*arguments, "--registry", typo, fails=3)
    assert not typo.exists()


def test_a_name_with_an_alias_makes_no_registry(run, tmp_path):
    with pytest.raises(ReferenceNotFoundError, match="there is no registry yet"):
        vitrify.open("churn@production")
    assert not (tmp_path / "registry").exists()


def test_a_version_is_pulled_in_the_form_that_is_wanted(run, shelf, tmp_path):
    from vitrify.stores.oci_layout import OciLayout

    variant = vitrify.convert("line", to="onnx", name="line-onnx", store=OciLayout(shelf))
    run("register", "line", "risk/churn:1.0.0", "--variant", "line-onnx")
    run("register", "line", "risk/later:1.0.0")
    assert "vitrify variant add REFERENCE risk/later:1.0.0" in run("pull", "risk/later", "--format", "onnx", fails=2)
    varied = run("variant", "add", "line-onnx", "risk/later:1.0.0")
    assert [one["format"] for one in varied["variants"]] == ["skops", "onnx"]
    OciLayout(shelf).names.unset("line-onnx:latest")  # other tests know what lies there
    pulled = run("pull", "risk/churn:1.0.0")
    assert pulled["name"] == "risk/churn:1.0.0"
    assert run("pull", "risk/churn", "--format", "onnx") == {
        "digest": str(variant.digest),
        "name": "risk/churn:1.0.0-onnx",
    }
    assert vitrify.load("risk/churn:1.0.0-onnx").predict(np.ones((2, 3)))
    assert "no variant in the format 'tflite'" in run("pull", "risk/churn", "--format", "tflite", fails=2)


def test_a_reference_may_name_the_registry(run, registered, shelf, tmp_path):
    """``name@alias`` is fetched from the registry, then opened like any other artifact."""
    run("promote", "risk/churn:1.0.0", "production")
    artifact = vitrify.open("risk/churn@production")
    assert isinstance(artifact.model(), LinearRegression)
    assert vitrify.load("risk/churn@production").predict(np.ones((2, 3)))


def test_webhooks_are_made_listed_and_deleted(run):
    made = run("registry", "webhook", "create", "https://hooks.example.com/x", "--kind", "version.*")
    assert made["secret"]
    assert [hook["url"] for hook in run("registry", "webhook", "list")] == ["https://hooks.example.com/x"]
    assert run("registry", "webhook", "list", "--deliveries", made["id"]) == []
    run("registry", "webhook", "delete", made["id"])
    assert run("registry", "webhook", "list") == []
    assert "not the URL of a webhook" in run("registry", "webhook", "create", "ftp://x", fails=2)
