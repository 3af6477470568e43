"""Registered models and versions by MLflow's API: they are the registry's own, and what they pin never changes."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import registries as r_
from mlflow_wire import Refused, Wire
from registries import acting, intact

from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT, Document
from vitrify.core.manifest import MODEL_TYPE, Manifest
from vitrify.registry import requests as r
from vitrify.registry.audit import verify
from vitrify.registry.garbage import collect
from vitrify.registry.registry import Registry

FILES = {"MLmodel": b"flavors: {}\n", "model.bin": b"weights", "code/own.py": b"x = 1\n", "input_example.json": b"[]"}


def place_of(wire, name="churn", version="1"):
    """Return where a version's files are."""
    uri = wire.get("model-versions/get-download-uri", name=name, version=version)["artifact_uri"]
    return uri.removeprefix("mlflow-artifacts:/")


def read(backend, digest):
    return b"".join(map(bytes, backend.read(Digest.parse(digest))))


def test_a_version_is_a_modelpack_artifact_of_the_files_as_they_were(wire, backend):
    version = wire.version(files=FILES, description="first", tags=[{"key": "team", "value": "risk"}])
    own = Registry(backend).version("churn", "1")
    manifest = Manifest.from_json(read(backend, own.digest), where="manifest")
    assert manifest.artifact_type == MODEL_TYPE
    assert {
        path: layer.media_type.removeprefix("application/vnd.cncf.model.")
        for path, layer in manifest.files.items()
        if path != DOCUMENT
    } == {
        "MLmodel": "weight.config.v1.raw",
        "code/own.py": "code.v1.raw",
        "input_example.json": "dataset.v1.raw",
        "model.bin": "weight.v1.raw",
    }
    assert {path: read(backend, layer.digest) for path, layer in manifest.files.items() if path != DOCUMENT} == FILES
    assert Document.from_json(read(backend, manifest.file(DOCUMENT).digest), where="document").format == "mlflow-model"
    assert own.variants[0].format == "mlflow-model"
    assert (own.description, own.tags["team"], own.stage) == ("first", "risk", "development")
    assert version["tags"] == [{"key": "team", "value": "risk"}, {"key": "vitrify.digest", "value": own.digest}]


def test_the_same_files_are_the_same_artifact(wire, backend):
    wire.version(files=FILES)
    wire.version(files=dict(reversed(FILES.items())))
    wire.version(files={**FILES, "model.bin": b"other"})
    digests = [Registry(backend).version("churn", str(number)).digest for number in (1, 2, 3)]
    assert digests[0] == digests[1] != digests[2]


def test_overwriting_a_file_does_not_change_the_version(wire):
    id_, root = wire.logged(FILES)
    wire.post("registered-models/create", name="churn")
    wire.post("model-versions/create", name="churn", source=f"models:/{id_}")
    place = place_of(wire)
    wire.upload(f"{root}/model.bin", b"evil")
    wire.upload(f"{root}/more.bin", b"evil")
    assert wire.download(f"{root}/model.bin") == b"evil"
    assert wire.download(f"{place}/model.bin") == b"weights"
    assert [one["path"] for one in wire.files(place)] == ["MLmodel", "code", "input_example.json", "model.bin"]
    assert [one["path"] for one in wire.files(f"{place}/code")] == ["own.py"]
    wire.answer("DELETE", f"/api/2.0/mlflow-artifacts/artifacts/{root}")
    assert wire.download(f"{place}/code/own.py") == b"x = 1\n"
    with pytest.raises(Refused):
        wire.download(f"{place}/more.bin")


def test_nobody_writes_into_a_version_whatever_his_role(wire):
    wire.version()
    for write in (
        lambda: wire.upload(f"{place_of(wire)}/model.bin", b"evil"),
        lambda: wire.upload(f"{place_of(wire)}/new.bin", b"evil"),
        lambda: wire.answer("DELETE", f"/api/2.0/mlflow-artifacts/artifacts/{place_of(wire)}"),
        lambda: wire.answer("DELETE", "/api/2.0/mlflow-artifacts/artifacts/vitrify-versions"),
    ):
        with pytest.raises(Refused, match="can never change") as caught:
            write()
        assert (caught.value.status, caught.value.code) == (403, "PERMISSION_DENIED")


def test_a_version_can_come_from_a_run_a_path_or_another_version(wire, backend):
    run = wire.post("runs/create", experiment_id="0")["run"]["info"]
    root = run["artifact_uri"].removeprefix("mlflow-artifacts:/")
    for path, data in FILES.items():
        wire.upload(f"{root}/model/{path}", data)
    wire.post("runs/log-batch", run_id=run["run_id"], params=[{"key": "c", "value": "1"}])
    for key, value in (("auc", 0.9), ("odd", "NaN")):
        wire.post("runs/log-metric", run_id=run["run_id"], key=key, value=value, timestamp=0)
    wire.post("registered-models/create", name="churn")
    sources = (
        f"runs:/{run['run_id']}/model",
        f"{run['artifact_uri']}/model",
        f"mlflow-artifacts://registry:8642/{root}/model",
        "models:/churn/1",
        "models:/churn/latest",
        "mlflow-artifacts:/vitrify-versions/churn/@1",
    )
    for source in sources:
        made = wire.post("model-versions/create", name="churn", source=source, run_id=run["run_id"])["model_version"]
        assert made["source"] == source
        assert made["run_id"] == run["run_id"]
    found = [Registry(backend).version("churn", str(number + 1)) for number in range(len(sources))]
    assert len({version.digest for version in found}) == 1
    assert (found[0].parameters, found[0].metrics) == ({"c": "1"}, {"auc": 0.9})


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("s3://bucket/model", 400),
        ("file:///etc", 400),
        ("/etc", 400),
        ("https://example.org/model", 400),
        ("mlflow-artifacts://elsewhere/1", 400),
        ("mlflow-artifacts:/../../etc", 400),
        ("mlflow-artifacts:/nothing/here", 404),
        ("runs:/0123456789abcdef/model", 404),
        ("models:/m-0123456789abcdef", 404),
        ("models:/nobody/1", 404),
        ("models:/churn@nobody", 404),
        ("models:/churn/Nowhere", 400),
        ("models:/", 400),
        ("dbfs:/x", 400),
        ("", 400),
        ("a" * 3000, 400),
    ],
)
def test_a_source_that_this_server_does_not_keep_is_refused(registries, source, status):
    wire = Wire(registries.open())
    wire.post("registered-models/create", name="churn")
    with pytest.raises(Refused) as caught:
        wire.post("model-versions/create", name="churn", source=source)
    assert caught.value.status == status
    assert wire.get("model-versions/search", filter="name = 'churn'")["model_versions"] == []


def test_files_that_no_artifact_can_hold_together_are_refused(registries):
    wire = Wire(registries.open())
    wire.post("registered-models/create", name="churn")
    id_, _ = wire.logged({"MLmodel": b"", "A.bin": b"1", "a.bin": b"2"})
    with pytest.raises(Refused, match="upper and lower case"):
        wire.post("model-versions/create", name="churn", source=f"models:/{id_}")


def test_production_holds_one_version(wire, backend):
    for _ in range(3):
        wire.version()
    for number in ("1", "1"):  # once more is no conflict
        wire.post("model-versions/transition-stage", name="churn", version=number, stage="Production")
    with pytest.raises(Refused, match="archive_existing_versions=True") as caught:
        wire.post("model-versions/transition-stage", name="churn", version="2", stage="production")
    assert (caught.value.status, caught.value.code) == (409, "RESOURCE_CONFLICT")
    moved = {"name": "churn", "version": "2", "stage": "PRODUCTION", "archive_existing_versions": True}
    assert wire.post("model-versions/transition-stage", **moved)["model_version"]["current_stage"] == "Production"
    assert Registry(backend).version("churn", "1").stage == "archived"
    assert Registry(backend).production_at("churn").version == "2"
    with pytest.raises(Refused, match="goes with Staging and Production"):
        wire.post("model-versions/transition-stage", **{**moved, "stage": "Archived"})
    with pytest.raises(Refused, match="is in production"):
        wire.delete("model-versions/delete", name="churn", version="2")
    wire.post("model-versions/transition-stage", name="churn", version="2", stage="None")
    assert Registry(backend).version("churn", "2").stage == "development"


def test_the_newest_version_of_each_stage_is_shown(wire, backend):
    for _ in range(5):
        wire.version()
    for number, stage in (("1", "Staging"), ("2", "Staging"), ("3", "Production"), ("4", "Archived")):
        wire.post("model-versions/transition-stage", name="churn", version=number, stage=stage)
    found = wire.get("registered-models/get", name="churn")["registered_model"]["latest_versions"]
    assert [(one["version"], one["current_stage"]) for one in found] == [
        ("2", "Staging"),
        ("3", "Production"),
        ("4", "Archived"),
        ("5", "None"),
    ]
    Registry(backend).set_status("churn", "2", "yanked", "bad data")
    some = wire.get("registered-models/get-latest-versions", name="churn", stages=["Staging", "Production"])
    assert [one["version"] for one in some["model_versions"]] == ["1", "3"]
    assert (
        wire.get("model-versions/get", name="churn", version="2")["model_version"]["status_message"]
        == "yanked: bad data"
    )


def test_what_vitrify_registered_is_seen_and_can_be_fetched_as_an_mlflow_directory(wire, backend):
    source = r_.artifact(backend)
    Registry(backend).do(r.CreateVersion(model="team/ours", digest=source, version="1.2.0"))
    found = wire.get("model-versions/get", name="team/ours", version="1")["model_version"]
    assert {"key": "vitrify.version", "value": "1.2.0"} in found["tags"]
    assert wire.files(place_of(wire, "team/ours")) == []  # another tool's artifact, without names of files

    document = Document(schema=1, format="skops", runtime="sklearn").to_json()
    manifest = Manifest.from_json(read(backend, source), where="manifest")
    layer = manifest.layers[0].replace(
        digest=r_.put(backend, document), size=len(document), annotations={"org.cncf.model.filepath": DOCUMENT}
    )
    digest = r_.put(backend, manifest.replace(layers=(layer,)).to_json())
    Registry(backend).do(r.CreateVersion(model="team/ours", digest=digest))
    place = place_of(wire, "team/ours", "2")
    said = json.loads(wire.download(f"{place}/MLmodel"))
    assert said["flavors"]["python_function"]["loader_module"] == "vitrify.package.mlflow_loader"
    index = json.loads(wire.download(f"{place}/artifact/index.json"))
    assert index["manifests"][0]["digest"] == digest
    for blob in wire.files(f"{place}/artifact/blobs/sha256"):
        assert Digest.of(wire.download(f"{place}/artifact/blobs/sha256/{blob['path']}")).hex == blob["path"]
    assert len(wire.files(f"{place}/artifact/blobs/sha256")) == 3


def test_versions_are_found_by_what_is_said_of_them(wire):
    for at in range(3):
        wire.version(tags=[{"key": "team", "value": f"Team {at}"}])
    wire.version("other")

    def numbers(query, **asked):
        return [one["version"] for one in wire.get("model-versions/search", filter=query, **asked)["model_versions"]]

    assert numbers("name = 'churn'") == ["3", "2", "1"]
    assert numbers("name LIKE 'ch%' AND version_number < 3", order_by=["version_number ASC"]) == ["1", "2"]
    assert numbers("tags.team ILIKE 'TEAM _' and tags.team != 'Team 0'") == ["3", "2"]
    assert numbers("tags.`mlflow.prompt.is_prompt` != 'true' and name IN ('other', 'nobody')") == ["1"]
    assert numbers("name = 'churn' and creation_timestamp > 5", order_by=["creation_timestamp"]) == ["1", "2", "3"]
    assert numbers("source_path LIKE 'models:/m-%' and name = 'other'") == ["1"]
    assert numbers("tags.team IS NULL") == ["1"]
    page = wire.get("model-versions/search", filter="name = 'churn'", max_results="2")
    rest = wire.get("model-versions/search", filter="name = 'churn'", page_token=page["next_page_token"])
    assert [one["version"] for one in (*page["model_versions"], *rest["model_versions"])] == ["3", "2", "1"]
    assert len(numbers("", max_results=10**15)) == 4
    for asked in ({"max_results": 0}, {"max_results": -1}, {"max_results": "many"}, {"page_token": "x"}):
        with pytest.raises(Refused) as caught:
            numbers("", **asked)
        assert caught.value.status == 400


def test_models_are_found_by_name_and_tag(wire):
    for name in ("b", "a", "c"):
        tags = [{"key": "team", "value": name}, {"key": "mlflow.prompt.is_prompt", "value": str(name == "c").lower()}]
        wire.post("registered-models/create", name=name, tags=tags)

    def names(query="", **asked):
        return [one["name"] for one in wire.get("registered-models/search", filter=query, **asked)["registered_models"]]

    assert names() == ["a", "b", "c"]
    assert names(order_by=["name DESC"]) == ["c", "b", "a"]
    assert names("tags.`mlflow.prompt.is_prompt` != 'true'", order_by=["last_updated_timestamp ASC"]) == ["b", "a"]
    assert names("tags.team IN ('a', 'c') and name != 'a'") == ["c"]
    page = wire.get("registered-models/search", max_results=2)
    assert names(page_token=page["next_page_token"]) == ["c"]


def test_who_may_touch_some_models_sees_only_those(wire, backend):
    wire.version("team-a/one")
    wire.version("team-b/two")
    mine = Wire(acting(backend, "ann", "writer", models=("team-a/*",)).backend)
    assert [one["name"] for one in mine.get("model-versions/search")["model_versions"]] == ["team-a/one"]
    assert [one["name"] for one in mine.get("registered-models/search")["registered_models"]] == ["team-a/one"]
    for call in (
        lambda: mine.get("registered-models/get", name="team-b/two"),
        lambda: mine.get("model-versions/get-download-uri", name="team-b/two", version="1"),
        lambda: mine.download("vitrify-versions/team-b/two/@1/MLmodel"),
        lambda: mine.files("vitrify-versions/team-b/two/@1"),
        lambda: mine.post("model-versions/create", name="team-a/one", source="models:/team-b/two/1"),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (403, "PERMISSION_DENIED")


def test_a_version_that_was_deleted_is_gone_and_its_number_is_not_given_again(wire):
    wire.version()
    wire.version()
    place = place_of(wire)
    wire.delete("model-versions/delete", name="churn", version="1")
    for call in (
        lambda: wire.get("model-versions/get", name="churn", version="1"),
        lambda: wire.download(f"{place}/MLmodel"),
        lambda: wire.post("model-versions/set-tag", name="churn", version="1", key="a", value="b"),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert (caught.value.status, caught.value.code) == (404, "RESOURCE_DOES_NOT_EXIST")
    wire.delete("registered-models/delete", name="churn")
    wire.post("registered-models/create", name="churn")
    assert wire.version()["version"] == "3"


@pytest.mark.parametrize("key", ["", "vitrify.mlflow.source", "vitrify.digest", "vitrify.version", "x" * 251])
def test_the_servers_own_tags_are_not_written(registries, key):
    wire = Wire(registries.open())
    wire.version()
    for call in (
        lambda: wire.post("model-versions/set-tag", name="churn", version="1", key=key, value="x"),
        lambda: wire.delete("model-versions/delete-tag", name="churn", version="1", key=key),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.status == 400


def test_a_tag_may_be_long(wire):
    wire.version()
    text = random.Random(7).randbytes(40_000).hex()  # what no database compresses to nothing
    wire.post("model-versions/set-tag", name="churn", version="1", key="notes", value=text)
    tags = wire.get("model-versions/get", name="churn", version="1")["model_version"]["tags"]
    assert {"key": "notes", "value": text} in tags
    for query in (f"tags.notes = '{text[:4000]}'", f"tags.notes LIKE '{text[:20]}%'"):
        assert len(wire.get("model-versions/search", filter=query)["model_versions"]) == 1


def test_what_is_done_through_mlflow_stands_in_the_log_and_is_verified(wire, backend):
    for _ in range(3):
        wire.version(tags=[{"key": "team", "value": "risk"}])
    wire.post("model-versions/transition-stage", name="churn", version="1", stage="Production")
    moved = {"name": "churn", "version": "2", "stage": "Production", "archive_existing_versions": True}
    wire.post("model-versions/transition-stage", **moved)
    wire.post("registered-models/alias", name="churn", alias="champion", version="2")
    wire.post("model-versions/set-tag", name="churn", version="1", key="checked", value="yes")
    wire.delete("model-versions/delete", name="churn", version="3")
    wire.post("registered-models/rename", name="churn", new_name="team/churn")
    report = verify(backend.database)
    assert report.verdict == "clean", report.findings
    kinds = [event.kind for event in Registry(backend).events()]
    assert kinds.count("version.created") == 3
    assert {"version.staged", "alias.set", "version.updated", "version.deleted", "model.renamed"} <= set(kinds)


def test_whoever_overwrites_while_others_register_changes_no_version(wire, backend):
    id_, root = wire.logged({"MLmodel": b"", "model.bin": b"weights"})
    wire.post("registered-models/create", name="churn")

    def overwrite(at):
        wire.upload(f"{root}/model.bin", f"weights {at}".encode() * (at + 1))

    def register(_):
        return wire.post("model-versions/create", name="churn", source=f"models:/{id_}")["model_version"]["version"]

    with ThreadPoolExecutor(6) as pool:
        written = [pool.submit(overwrite, at) for at in range(20)]
        made = list(pool.map(register, range(20)))
        for one in written:
            one.result()
    assert sorted(made, key=int) == [str(number + 1) for number in range(20)]
    wire.upload(f"{root}/model.bin", b"the end")
    allowed = {b"weights", *(f"weights {at}".encode() * (at + 1) for at in range(20))}
    for number in made:
        place = place_of(wire, version=number)
        assert wire.download(f"{place}/model.bin") in allowed
    intact(backend)


def test_content_of_a_version_is_no_garbage_when_its_source_is_gone(wire, backend):
    id_, root = wire.logged(FILES)
    wire.post("registered-models/create", name="churn")
    wire.post("model-versions/create", name="churn", source=f"models:/{id_}")
    wire.upload(f"{root}/unpinned.bin", b"nobody needs this")
    wire.answer("DELETE", f"/api/2.0/mlflow-artifacts/artifacts/{root}")
    collect(backend.database, backend.blobs, timedelta(0))
    collect(backend.database, backend.blobs, timedelta(0))
    assert wire.download(f"{place_of(wire)}/model.bin") == b"weights"
    assert backend.blobs.size(Digest.of(b"nobody needs this")) is None
    intact(backend)
