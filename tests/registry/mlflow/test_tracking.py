"""Experiments, runs, logged models and their files, on every pair of database and content."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from mlflow_wire import Refused, Wire

from vitrify.registry.actor import Actor
from vitrify.registry.api.mlflow import _notes
from vitrify.registry.database.mlflow_schema import files


@pytest.fixture
def run(wire):
    return wire.post("runs/create", experiment_id="0", user_id="ann", run_name="first")["run"]["info"]["run_id"]


def test_an_experiment_is_made_renamed_put_away_and_brought_back(wire):
    id_ = wire.post("experiments/create", name="churn", tags=[{"key": "team", "value": "risk"}])["experiment_id"]
    with pytest.raises(Refused, match="is called") as caught:
        wire.post("experiments/create", name="churn")
    assert (caught.value.status, caught.value.code) == (400, "RESOURCE_ALREADY_EXISTS")
    found = wire.get("experiments/get", experiment_id=id_)["experiment"]
    assert found["tags"] == [{"key": "team", "value": "risk"}]
    assert found["artifact_location"] == f"mlflow-artifacts:/{id_}"
    wire.post("experiments/update", experiment_id=id_, new_name="other")
    assert wire.get("experiments/get-by-name", experiment_name="other")["experiment"]["experiment_id"] == id_
    with pytest.raises(Refused) as caught:
        wire.post("experiments/update", experiment_id=id_, new_name="Default")
    assert caught.value.code == "RESOURCE_ALREADY_EXISTS"
    wire.post("experiments/delete", experiment_id=id_)
    assert [one["name"] for one in wire.post("experiments/search")["experiments"]] == ["Default"]
    assert [one["name"] for one in wire.post("experiments/search", view_type="ALL")["experiments"]] == [
        "other",
        "Default",
    ]
    with pytest.raises(Refused, match="was deleted"):
        wire.post("runs/create", experiment_id=id_)
    wire.post("experiments/restore", experiment_id=id_)
    for query in ("tags.team = 'risk'", "name LIKE 'oth%'", "creation_time > 5 and name != 'Default'"):
        assert [one["name"] for one in wire.post("experiments/search", filter=query)["experiments"]] == ["other"]


@pytest.mark.parametrize(
    "where", ["s3://bucket", "file:///x", "/x", "mlflow-artifacts://h/x", "mlflow-artifacts:/../x"]
)
def test_artifacts_lie_nowhere_but_here(registries, where):
    with pytest.raises(Refused) as caught:
        Wire(registries.open()).post("experiments/create", name="x", artifact_location=where)
    assert (caught.value.status, caught.value.code) == (400, "INVALID_PARAMETER_VALUE")


def test_an_experiment_may_have_a_folder_of_its_own(wire):
    where = "mlflow-artifacts:/team/churn"
    id_ = wire.post("experiments/create", name="x", artifact_location=where)["experiment_id"]
    run = wire.post("runs/create", experiment_id=id_)["run"]["info"]
    assert run["artifact_uri"] == f"{where}/{run['run_id']}/artifacts"


def test_a_run_keeps_what_is_said_of_it(wire, run):
    wire.post("runs/log-parameter", run_id=run, key="depth", value="3")
    wire.post("runs/log-parameter", run_id=run, key="depth", value="3")
    with pytest.raises(Refused, match="never changes"):
        wire.post("runs/log-batch", run_id=run, params=[{"key": "a", "value": "1"}, {"key": "depth", "value": "4"}])
    wire.post("runs/set-tag", run_id=run, key="mlflow.runName", value="renamed")
    wire.post("runs/update", run_id=run, status="FINISHED", end_time=7)
    found = wire.get("runs/get", run_id=run)["run"]
    assert found["data"]["params"] == [{"key": "depth", "value": "3"}]  # of the batch that was refused, nothing stays
    assert (found["info"]["run_name"], found["info"]["status"], found["info"]["end_time"]) == ("renamed", "FINISHED", 7)
    wire.post("runs/delete", run_id=run)
    with pytest.raises(Refused, match="was deleted"):
        wire.post("runs/set-tag", run_id=run, key="x", value="y")


def test_the_latest_point_of_a_metric_is_of_the_highest_step(wire, run):
    for value, time, step in ((1.0, 10, 5), (2.0, 20, 4), (3.0, 9, 5), (0.5, 10, 5), (4.0, 10, 5)):
        wire.post("runs/log-metric", run_id=run, key="loss", value=value, timestamp=time, step=step)
    points = [
        {"key": "odd", "value": value, "timestamp": 1, "step": 1} for value in ("NaN", "Infinity", "-Infinity", "2")
    ]
    wire.post("runs/log-batch", run_id=run, metrics=points)
    found = {one["key"]: one["value"] for one in wire.get("runs/get", run_id=run)["run"]["data"]["metrics"]}
    assert found["loss"] == 4.0
    history = [one["value"] for one in wire.get("metrics/get-history", run_id=run, metric_key="odd")["metrics"]]
    assert history == ["NaN", "Infinity", "-Infinity", 2.0]
    first = wire.get("metrics/get-history", run_id=run, metric_key="loss", max_results=2)
    rest = wire.get("metrics/get-history", run_id=run, metric_key="loss", page_token=first["next_page_token"])
    assert [one["value"] for one in (*first["metrics"], *rest["metrics"])] == [1.0, 2.0, 3.0, 0.5, 4.0]


def test_many_that_log_at_once_lose_nothing(wire, run):
    def log(at):
        metrics = [{"key": f"m{key}", "value": at, "timestamp": at, "step": at} for key in range(5)]
        tags = [{"key": key, "value": str(at)} for key in ("mlflow.runName", "a", "b", "c")][:: 1 if at % 2 else -1]
        wire.post("runs/log-batch", run_id=run, tags=tags, metrics=metrics[:: -1 if at % 3 else 1])
        wire.post("runs/update", run_id=run, run_name=f"run {at}")
        wire.post("runs/log-batch", run_id=run, metrics=metrics, params=[{"key": f"p{at}", "value": "x"}])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(log, range(40)))
    data = wire.get("runs/get", run_id=run)["run"]["data"]
    assert {one["value"] for one in data["metrics"]} == {39.0}
    assert len(data["params"]) == 40
    assert len(wire.get("metrics/get-history", run_id=run, metric_key="m0")["metrics"]) == 80


def test_runs_are_found_by_what_is_said_of_them(wire):
    ids = []
    for at in range(5):
        id_ = wire.post("runs/create", experiment_id="0", run_name=f"run {at}", start_time=at + 1)["run"]["info"][
            "run_id"
        ]
        metrics = [{"key": "auc", "value": at / 10, "timestamp": 1, "step": 1}] if at else []
        params, tags = [{"key": "depth", "value": str(at % 2)}], [{"key": "team", "value": f"Team {at}"}]
        wire.post("runs/log-batch", run_id=id_, metrics=metrics, params=params, tags=tags)
        ids.append(id_)

    def names(**asked):
        found = wire.post("runs/search", experiment_ids=["0"], **asked)["runs"]
        return [one["info"]["run_name"][-1] for one in found]

    assert names() == ["4", "3", "2", "1", "0"]
    assert names(order_by=["metrics.auc ASC"]) == ["1", "2", "3", "4", "0"]
    assert names(order_by=["params.depth DESC", "start_time ASC"]) == ["1", "3", "0", "2", "4"]
    assert names(filter="metrics.auc > 0.1 and params.depth = '1'") == ["3"]
    assert names(filter="tags.team ILIKE 'team _'", max_results=2) == ["4", "3"]
    assert names(filter=f"run_id IN ('{ids[0]}', '{ids[2]}')") == ["2", "0"]
    assert names(filter="start_time >= 4") == ["4", "3"]
    assert names(filter="params.depth != '0'") == ["3", "1"]
    assert names(filter="metrics.auc < 0.2", order_by=["tags.team"]) == ["1"]
    assert wire.post("runs/search", experiment_ids=["77", "x", "9" * 40])["runs"] == []
    page = wire.post("runs/search", experiment_ids=["0"], max_results=2)
    following = wire.post("runs/search", experiment_ids=["0"], max_results=9, page_token=page["next_page_token"])
    assert [one["info"]["run_name"][-1] for one in following["runs"]] == ["2", "1", "0"]
    assert "next_page_token" not in following


def test_logged_models_are_found_by_what_is_said_of_them(wire, run):
    ids = []
    for at in range(3):
        id_, _ = wire.logged(source_run_id=run, params=[{"key": "c", "value": str(at)}])
        wire.post("runs/log-metric", run_id=run, key="auc", value=at / 10, timestamp=1, step=1, model_id=id_)
        ids.append(id_)

    def found(**asked):
        return [
            one["info"]["model_id"]
            for one in wire.post("logged-models/search", experiment_ids=["0"], **asked)["models"]
        ]

    assert found(order_by=[{"field_name": "metrics.auc", "ascending": True}]) == ids
    assert found(filter="metrics.auc > 0.05", order_by=[{"field_name": "params.c", "ascending": False}]) == ids[:0:-1]
    assert found(filter=f"source_run_id = '{run}' and status = 'READY' and params.c = '1'") == [ids[1]]
    wire.delete(f"logged-models/{ids[1]}")
    assert set(found()) == {ids[0], ids[2]}
    with pytest.raises(Refused, match="no logged model"):
        wire.get(f"logged-models/{ids[1]}")
    with pytest.raises(Refused, match="by data set"):
        found(datasets=[{"dataset_name": "x"}])


def test_files_are_written_overwritten_listed_and_taken_away(wire):
    wire.upload("0/run/artifacts/a.txt", b"one")
    wire.upload("0/run/artifacts/a.txt", b"another")
    wire.upload("0/run/artifacts/sub/b.txt", b"")
    wire.upload("0/run/artifacts.txt", b"beside")
    assert wire.download("0/run/artifacts/a.txt") == b"another"
    assert wire.download("0/run/artifacts/sub/b.txt") == b""
    assert wire.files("0/run/artifacts") == [
        {"path": "a.txt", "is_dir": False, "file_size": 7},
        {"path": "sub", "is_dir": True},
    ]
    assert [one["path"] for one in wire.files("0/run")] == ["artifacts", "artifacts.txt"]
    assert wire.files("") == [{"path": "0", "is_dir": True}]
    assert wire.files("0/run/artifacts/a.txt") == wire.files("nowhere") == []
    for path in ("0/run/artifacts/a.txt/below", "0/run/artifacts/sub"):
        with pytest.raises(Refused) as caught:
            wire.upload(path, b"x")
        assert (caught.value.status, caught.value.code) == (409, "RESOURCE_CONFLICT")
    wire.answer("DELETE", "/api/2.0/mlflow-artifacts/artifacts/0/run/artifacts")
    assert wire.files("0/run/artifacts") == []
    assert wire.download("0/run/artifacts.txt") == b"beside"
    with pytest.raises(Refused, match="no file lies"):
        wire.download("0/run/artifacts/a.txt")


def test_a_large_folder_is_listed_whole_and_one_with_much_below_it_fast(wire, backend):
    from sqlalchemy import insert

    about = {"digest": "sha256:" + "0" * 64, "size": 1, "updated": 1, "by": "x"}
    paths = [f"0/run/d{at % 3}/{at}" for at in range(3000)] + [f"0/run/f{at:04}" for at in range(1200)] + ["0/runs/x"]
    with backend.database.write() as connection:
        connection.execute(insert(files), [{"path": path, **about} for path in paths])
    found = wire.files("0/run")
    assert [one["path"] for one in found if one["is_dir"]] == ["d0", "d1", "d2"]
    assert [one["path"] for one in found if not one["is_dir"]] == [f"f{at:04}" for at in range(1200)]
    assert len(wire.files("0/run/d1")) == 1000
    assert [one["path"] for one in wire.files("0")] == ["run", "runs"]
    assert [one["path"] for one in wire.files("")] == ["0"]


def test_a_run_lists_its_own_files_by_paths_of_its_own(wire, run):
    root = wire.get("runs/get", run_id=run)["run"]["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
    wire.upload(f"{root}/notes/a.txt", b"x")
    assert wire.get("artifacts/list", run_id=run)["files"] == [{"path": "notes", "is_dir": True}]
    assert wire.get("artifacts/list", run_id=run, path="notes")["files"][0]["path"] == "notes/a.txt"
    with pytest.raises(Refused) as caught:
        wire.get("artifacts/list", run_id=run, path="../../..")
    assert caught.value.status == 400


def test_content_that_a_path_leads_to_is_no_garbage(wire, backend):
    from registries import intact

    wire.upload("0/a.txt", b"kept")
    assert intact(backend) == 1


@pytest.mark.parametrize(("role", "may"), [("reader", False), ("writer", True), ("approver", False)])
def test_only_a_writer_writes(registries, role, may):
    wire = Wire(registries.open().acting(Actor("x", (role,))))
    for write in (lambda: wire.upload("0/a", b"x"), lambda: wire.post("experiments/create", name="x")):
        if may:
            write()
        else:
            with pytest.raises(Refused) as caught:
                write()
            assert (caught.value.status, caught.value.code) == (403, "PERMISSION_DENIED")
    with pytest.raises(Refused, match="admin"):
        wire.answer("DELETE", "/api/2.0/mlflow-artifacts/artifacts/0/a")


def test_a_point_that_is_no_number_is_one(registries):
    wire = Wire(registries.open())
    run = wire.post("runs/create", experiment_id="0")["run"]["info"]["run_id"]
    wire.post("runs/log-metric", run_id=run, key="loss", value="NaN", timestamp=0, step=0)
    assert wire.get("runs/get", run_id=run)["run"]["data"]["metrics"][0]["value"] == "NaN"
    with wire.backend.database.read() as connection:
        assert _notes.figures(connection, run) == {}
    with pytest.raises(Refused, match="expected a number"):
        wire.post("runs/log-metric", run_id=run, key="loss", value="many", timestamp=0, step=0)
