"""A session of an unmodified MLflow client, as a program of its own: ``session.py URL FOLDER``, the token in the
environment. It ends with an assertion that fails, or with the word that the test waits for.
"""

import logging
import sys
import warnings
from pathlib import Path

import mlflow
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from sklearn.linear_model import LogisticRegression

DATA = np.random.default_rng(7).normal(size=(60, 3))
TARGET = (DATA.sum(axis=1) > 0).astype(int)
TRUSTED = ["sklearn.linear_model._logistic.LogisticRegression"]


def refused(code, call, *arguments, **named):
    """Expect an error of a code."""
    try:
        call(*arguments, **named)
    except MlflowException as error:
        if error.error_code != code:
            raise
        return str(error)
    raise AssertionError(code)


def tracking(client):
    """Experiments, runs, and everything that is logged to them; they come back as they were."""
    experiment = client.create_experiment("churn", tags={"team": "risk"})
    refused("RESOURCE_ALREADY_EXISTS", client.create_experiment, "churn")
    assert client.get_experiment(experiment).tags == {"team": "risk"}
    assert client.get_experiment_by_name("churn").experiment_id == experiment
    assert client.get_experiment_by_name("nobody") is None
    assert client.get_experiment("0").name == "Default"
    client.set_experiment_tag(experiment, "colour", "blue")
    client.rename_experiment(experiment, "churn-2")
    assert [one.name for one in client.search_experiments(filter_string="tags.colour = 'blue'")] == ["churn-2"]
    client.rename_experiment(experiment, "churn")
    client.delete_experiment(experiment)
    assert "churn" not in [one.name for one in client.search_experiments()]
    client.restore_experiment(experiment)
    mlflow.set_experiment("churn")

    with mlflow.start_run(run_name="first", tags={"who": "me"}) as run:
        id_ = run.info.run_id
        mlflow.log_param("depth", 3)
        mlflow.log_params({"rate": 0.1, "kind": "linear"})
        for step in range(5):
            mlflow.log_metric("loss", 1 / (step + 1), step=step)
        mlflow.log_metrics({"auc": 0.93, "odd": float("nan"), "large": float("inf")}, step=1)
        mlflow.set_tag("note", "good")
        mlflow.log_text("hello", "notes/hello.txt")
        mlflow.log_dict({"a": 1}, "notes/a.json")
        mlflow.log_input(mlflow.data.from_numpy(DATA, targets=TARGET, name="rows"), context="training")
        client.log_batch(id_, [Metric("auc", 0.95, 1, 2)], [Param("extra", "1")], [RunTag("late", "yes")])
        refused("INVALID_PARAMETER_VALUE", client.log_param, id_, "depth", 4)

    found = client.get_run(id_)
    assert found.info.status == "FINISHED"
    assert found.info.run_name == "first"
    assert found.data.params == {"depth": "3", "rate": "0.1", "kind": "linear", "extra": "1"}
    assert found.data.metrics["auc"] == 0.95
    assert np.isnan(found.data.metrics["odd"])
    assert np.isinf(found.data.metrics["large"])
    assert found.data.tags["note"] == "good"
    assert found.inputs.dataset_inputs[0].dataset.name == "rows"
    assert [point.value for point in client.get_metric_history(id_, "loss")] == [1 / (step + 1) for step in range(5)]
    client.delete_tag(id_, "note")
    assert "note" not in client.get_run(id_).data.tags
    assert [one.path for one in client.list_artifacts(id_)] == ["notes"]
    assert [one.path for one in client.list_artifacts(id_, "notes")] == ["notes/a.json", "notes/hello.txt"]
    assert client.list_artifacts(id_, "notes/hello.txt") == []
    assert mlflow.artifacts.load_text(f"runs:/{id_}/notes/hello.txt") == "hello"
    local = Path(mlflow.artifacts.download_artifacts(f"runs:/{id_}/notes"))
    assert sorted(path.name for path in local.iterdir()) == ["a.json", "hello.txt"]

    runs(client, id_, experiment)


def runs(client, id_, experiment):
    """Runs found again by what was logged to them."""
    with mlflow.start_run(run_name="second"):
        mlflow.log_metric("auc", 0.5)
    ordered = client.search_runs([experiment], order_by=["metrics.auc ASC"])
    assert [one.info.run_name for one in ordered] == ["second", "first"]
    for query in ("metrics.auc > 0.9", "params.depth = '3'", "tags.who LIKE 'm%'", "attributes.run_name ILIKE 'FIR%'"):
        assert [one.info.run_name for one in client.search_runs([experiment], query)] == ["first"], query
    page = client.search_runs([experiment], max_results=1)
    assert client.search_runs([experiment], max_results=1, page_token=page.token)[0].info.run_id != page[0].info.run_id
    client.delete_run(id_)
    assert len(client.search_runs([experiment])) == 1
    client.restore_run(id_)


def names(client):
    """Registered models: made, changed, found, given up."""
    client.create_registered_model("team/one", tags={"tier": "gold"}, description="the first")
    refused("RESOURCE_ALREADY_EXISTS", client.create_registered_model, "team/one")
    refused("INVALID_PARAMETER_VALUE", client.create_registered_model, "../../etc")
    refused("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, "nobody")
    model = client.get_registered_model("team/one")
    assert (model.description, model.tags) == ("the first", {"tier": "gold"})
    client.update_registered_model("team/one", "changed")
    client.set_registered_model_tag("team/one", "region", "eu")
    client.delete_registered_model_tag("team/one", "tier")
    client.rename_registered_model("team/one", "team/two")
    model = client.get_registered_model("team/two")
    assert (model.description, model.tags) == ("changed", {"region": "eu"})
    for name in ("a", "b", "c"):
        client.create_registered_model(f"many-{name}")
    assert [one.name for one in client.search_registered_models("name LIKE 'many-%'")] == ["many-a", "many-b", "many-c"]
    assert [one.name for one in client.search_registered_models("name ILIKE 'MANY-%' and name != 'many-b'")] == [
        "many-a",
        "many-c",
    ]
    assert [one.name for one in client.search_registered_models("tags.region = 'eu'")] == ["team/two"]
    first = client.search_registered_models("name LIKE 'many-%'", max_results=2, order_by=["name DESC"])
    second = client.search_registered_models(
        "name LIKE 'many-%'", max_results=2, order_by=["name DESC"], page_token=first.token
    )
    assert [[one.name for one in page] for page in (first, second)] == [["many-c", "many-b"], ["many-a"]]
    assert not second.token
    refused("INVALID_PARAMETER_VALUE", client.search_registered_models, "name = 'a' OR 1 = 1")
    client.delete_registered_model("many-c")
    refused("RESOURCE_DOES_NOT_EXIST", client.get_registered_model, "many-c")
    client.delete_registered_model("team/two")


def versions(client, model):
    """Versions: logged, registered, staged, named, loaded; they never change."""
    with mlflow.start_run() as run:
        mlflow.log_param("solver", "lbfgs")
        logged = mlflow.sklearn.log_model(
            model,
            name="model",
            registered_model_name="churn",
            input_example=DATA[:2],
            skops_trusted_types=TRUSTED,
            pip_requirements=["scikit-learn", "skops"],
            params={"c": 1.0},
            tags={"made": "here"},
        )
        mlflow.log_metric("auc", 0.97, model_id=logged.model_id)
    first = client.get_model_version("churn", "1")
    assert (first.name, first.version, first.status, first.current_stage) == ("churn", "1", "READY", "None")
    assert first.source == f"models:/{logged.model_id}"
    assert first.run_id == run.info.run_id
    found = client.get_logged_model(logged.model_id)
    assert (found.status.name, found.params["c"], found.tags["made"]) == ("READY", "1.0", "here")
    assert found.metrics[0].value == 0.97
    client.set_logged_model_tags(logged.model_id, {"more": "1"})
    client.delete_logged_model_tag(logged.model_id, "made")
    assert client.get_logged_model(logged.model_id).tags["more"] == "1"
    assert [one.name for one in client.search_logged_models([run.info.experiment_id], "name = 'model'")] == ["model"]
    assert "MLmodel" in [one.path for one in client.list_logged_model_artifacts(logged.model_id)]
    assert client.get_run(run.info.run_id).outputs.model_outputs[0].model_id == logged.model_id

    registered(client, run, logged)
    expected = model.predict(DATA)
    for uri in ("models:/churn/1", "models:/churn@champion", "models:/churn/Production", "models:/churn/latest"):
        assert (mlflow.pyfunc.load_model(uri).predict(DATA) == expected).all(), uri
    assert (mlflow.sklearn.load_model("models:/churn/1").predict(DATA) == expected).all()
    client.delete_registered_model_alias("churn", "champion")
    refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version_by_alias, "churn", "champion")
    return logged


def registered(client, run, logged):
    """More versions, from every kind of source, and what is said of them."""
    second = mlflow.register_model(f"runs:/{run.info.run_id}/model", "churn", tags={"team": "risk"})
    third = mlflow.register_model(f"models:/{logged.model_id}", "churn")
    fourth = client.copy_model_version("models:/churn/1", "copied")
    assert (second.version, third.version, fourth.name, fourth.version) == ("2", "3", "copied", "1")
    assert (
        len({client.get_model_version(*one).tags["vitrify.digest"] for one in (("churn", "1"), ("copied", "1"))}) == 1
    )

    client.update_model_version("churn", "1", "the first of them")
    client.set_model_version_tag("churn", "1", "checked", "yes")
    client.set_model_version_tag("churn", "1", "gone", "soon")
    client.delete_model_version_tag("churn", "1", "gone")
    refused("INVALID_PARAMETER_VALUE", client.set_model_version_tag, "churn", "1", "vitrify.mlflow.source", "x")
    first = client.get_model_version("churn", "1")
    assert first.description == "the first of them"
    assert first.tags["checked"] == "yes"
    assert "gone" not in first.tags

    client.set_registered_model_alias("churn", "champion", "1")
    assert client.get_model_version_by_alias("churn", "champion").version == "1"
    client.set_registered_model_alias("churn", "champion", "2")
    assert client.get_model_version_by_alias("churn", "champion").version == "2"
    assert client.get_registered_model("churn").aliases == {"champion": "2"}
    assert client.get_model_version("churn", "2").aliases == ["champion"]

    stages(client)
    found_again(client, run, logged)


def stages(client):
    """Stages, of which production holds one version."""
    assert client.transition_model_version_stage("churn", "1", "Production").current_stage == "Production"
    said = refused("RESOURCE_CONFLICT", client.transition_model_version_stage, "churn", "2", "Production")
    assert "archive_existing_versions=True" in said
    client.transition_model_version_stage("churn", "2", "Production", archive_existing_versions=True)
    assert client.get_model_version("churn", "1").current_stage == "Archived"
    client.transition_model_version_stage("churn", "1", "Staging")
    client.transition_model_version_stage("churn", "3", "staging", archive_existing_versions=True)
    assert client.get_model_version("churn", "1").current_stage == "Archived"
    refused("INVALID_PARAMETER_VALUE", client.transition_model_version_stage, "churn", "1", "Nowhere")
    latest = client.get_latest_versions("churn")
    assert {one.current_stage: one.version for one in latest} == {"Production": "2", "Staging": "3", "Archived": "1"}
    assert [one.version for one in client.get_latest_versions("churn", ["Production"])] == ["2"]
    refused("RESOURCE_CONFLICT", client.delete_model_version, "churn", "2")
    refused("RESOURCE_CONFLICT", client.delete_registered_model, "churn")


def found_again(client, run, logged):
    """Versions found by what is said of them."""
    for query, numbers in (
        ("name = 'churn'", ["3", "2", "1"]),
        (f"run_id = '{run.info.run_id}' and name = 'churn'", ["3", "2", "1"]),
        ("tags.team = 'risk' and name = 'churn'", ["2"]),
        ("tag.`team` ILIKE 'RI%' and name != 'ours'", ["2"]),
        ("name LIKE 'chu%' and version_number >= 2", ["3", "2"]),
        (f"source_path = 'models:/{logged.model_id}' and name IN ('churn')", ["3", "2", "1"]),
    ):
        got = [one.version for one in client.search_model_versions(query, order_by=["version_number DESC"])]
        assert got == numbers, (query, got)
    page = client.search_model_versions("name = 'churn'", max_results=2, order_by=["version_number ASC"])
    rest = client.search_model_versions(
        "name = 'churn'", max_results=2, order_by=["version_number ASC"], page_token=page.token
    )
    assert [one.version for one in [*page, *rest]] == ["1", "2", "3"]
    refused("INVALID_PARAMETER_VALUE", client.search_model_versions, "name = 'x'; DROP TABLE versions")


def unchanged(client, logged, folder):
    """What a version pins is not what lies where it came from."""
    uri = client.get_model_version_download_uri("churn", "1")
    before = Path(mlflow.artifacts.download_artifacts(f"{uri}/MLmodel")).read_bytes()
    (folder / "MLmodel").write_text("flavors: {python_function: {loader_module: evil}}")
    place = client.get_logged_model(logged.model_id).artifact_location
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    get_artifact_repository(place).log_artifact(str(folder / "MLmodel"))
    changed = Path(mlflow.artifacts.download_artifacts(f"{place}/MLmodel")).read_bytes()
    assert b"evil" in changed
    assert Path(mlflow.artifacts.download_artifacts(f"{uri}/MLmodel")).read_bytes() == before
    assert Path(mlflow.artifacts.download_artifacts("models:/churn/1") + "/MLmodel").read_bytes() == before
    for write in (
        lambda: get_artifact_repository(uri).log_artifact(str(folder / "MLmodel")),
        lambda: get_artifact_repository(uri).delete_artifacts("MLmodel"),
    ):
        try:
            write()
        except Exception as error:
            if "403" not in str(error):
                raise
        else:
            raise AssertionError("a version was written to")
    assert Path(mlflow.artifacts.download_artifacts(f"{uri}/MLmodel")).read_bytes() == before
    client.delete_logged_model(logged.model_id)
    refused("RESOURCE_DOES_NOT_EXIST", client.get_logged_model, logged.model_id)
    client.delete_model_version("churn", "3")
    refused("RESOURCE_DOES_NOT_EXIST", client.get_model_version, "churn", "3")
    assert mlflow.pyfunc.load_model("models:/churn/2").predict(DATA) is not None


def main():
    """Run it all."""
    url, folder = sys.argv[1], Path(sys.argv[2])
    warnings.simplefilter("ignore")  # MLflow's own, about stages
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    mlflow.set_tracking_uri(url)
    mlflow.set_registry_uri(url)
    client = MlflowClient()
    tracking(client)
    names(client)
    logged = versions(client, LogisticRegression().fit(DATA, TARGET))
    unchanged(client, logged, folder)
    sys.stdout.write("the session ended well\n")


main()
