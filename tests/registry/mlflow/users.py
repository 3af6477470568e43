"""Three people at one server, each an unmodified MLflow client: ``users.py URL FOLDER READER WRITER APPROVER ADMIN``.

In the registry is a version of the model ``ours`` that Vitrify registered; no MLflow had a part in it.
"""

import logging
import os
import sys
import warnings
from contextlib import contextmanager
from pathlib import Path

import mlflow
import numpy as np
import xgboost
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sklearn.linear_model import LogisticRegression

DATA = np.random.default_rng(7).normal(size=(60, 3))
TARGET = (DATA.sum(axis=1) > 0).astype(int)


@contextmanager
def being(token):
    """Be somebody else; MLflow looks at the environment for every request."""
    os.environ["MLFLOW_TRACKING_TOKEN"] = token
    yield MlflowClient()


def refused(code, call, *arguments, **named):
    """Expect an error of a code."""
    try:
        call(*arguments, **named)
    except MlflowException as error:
        if error.error_code != code:
            raise
        return
    raise AssertionError(code)


def logged(folder):
    """Log two models of other flavours, and register a directory by its artifacts' URI."""
    booster = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(DATA, TARGET)
    with mlflow.start_run() as run:
        mlflow.xgboost.log_model(booster, name="trees", registered_model_name="trees", pip_requirements=["xgboost"])
    assert (mlflow.pyfunc.load_model("models:/trees/1").predict(DATA) == booster.predict(DATA)).all()

    from onnx import TensorProto, helper

    rows = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["n", 3]) for name in ("rows", "doubled")]
    graph = helper.make_graph([helper.make_node("Add", ["rows", "rows"], ["doubled"])], "g", rows[:1], rows[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    mlflow.onnx.save_model(proto, str(folder / "graph"), pip_requirements=["onnxruntime"])
    with mlflow.start_run() as run:
        mlflow.log_artifacts(str(folder / "graph"), "graph")
    version = mlflow.register_model(f"{run.info.artifact_uri}/graph", "graph")
    answer = mlflow.pyfunc.load_model(f"models:/graph/{version.version}").predict(DATA)
    assert np.array_equal(answer["doubled"], DATA + DATA)


def logged_by_itself(client):
    """Let MLflow log a fit without being told what, and log from other threads."""
    mlflow.sklearn.autolog(silent=True)
    with mlflow.start_run() as run:
        LogisticRegression().fit(DATA, TARGET)
        with mlflow.start_run(nested=True) as inner:
            mlflow.log_metric("late", 1, synchronous=False)
        mlflow.log_table({"a": [1, 2]}, "table.json")
    mlflow.sklearn.autolog(disable=True)
    mlflow.flush_async_logging()
    found = client.get_run(run.info.run_id)
    assert found.data.params["solver"] == "lbfgs"
    assert found.data.metrics["training_score"] > 0.9
    assert mlflow.search_logged_models(output_format="list", max_results=1)[0].source_run_id == run.info.run_id
    assert client.get_run(inner.info.run_id).data.metrics == {"late": 1.0}
    assert mlflow.load_table("table.json", [run.info.run_id])["a"].tolist() == [1, 2]
    assert run.info.run_id in mlflow.search_runs()["run_id"].tolist()


def main():
    """Run it all."""
    url, folder, reader, writer, approver, admin = sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]
    warnings.simplefilter("ignore")  # MLflow's own, about stages
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    mlflow.set_tracking_uri(url)
    mlflow.set_registry_uri(url)
    with being("vit_0123456789abcdef_" + "A" * 43) as client:
        refused("UNAUTHENTICATED", client.search_registered_models)
    with being(writer) as client:
        logged(folder)
        logged_by_itself(client)
    with being(reader) as client:
        assert [one.name for one in client.search_registered_models()] == ["graph", "ours", "trees"]
        assert client.get_model_version("trees", "1").user_id == "the-writer"
        refused("PERMISSION_DENIED", client.create_registered_model, "mine")
        refused("PERMISSION_DENIED", client.set_registered_model_alias, "trees", "champion", "1")
        refused("PERMISSION_DENIED", client.create_experiment, "mine")
        refused("PERMISSION_DENIED", client.transition_model_version_stage, "trees", "1", "Staging")
    with being(writer) as client:
        client.set_registered_model_alias("trees", "champion", "1")
        client.transition_model_version_stage("trees", "1", "Staging")
        refused("PERMISSION_DENIED", client.transition_model_version_stage, "trees", "1", "Production")
        refused("PERMISSION_DENIED", client.delete_registered_model, "graph")
        refused("PERMISSION_DENIED", client.rename_registered_model, "graph", "other")
        refused("PERMISSION_DENIED", client.create_registered_model, "secret")  # not among the writer's models
    with being(approver) as client:
        assert client.transition_model_version_stage("trees", "1", "Production").current_stage == "Production"
    with being(admin) as client:
        client.delete_registered_model("graph")
        client.transition_model_version_stage("trees", "1", "Archived")
        client.delete_registered_model("trees")

    del os.environ["MLFLOW_TRACKING_TOKEN"]
    os.environ.update(MLFLOW_TRACKING_USERNAME="anybody", MLFLOW_TRACKING_PASSWORD=reader)
    client = MlflowClient()
    found = client.get_model_version("ours", "1")
    assert found.tags["vitrify.version"] == "1.2.0"
    assert [one.version for one in client.search_model_versions("name = 'ours' and tags.team = 'risk'")] == ["1"]
    expected = np.load(folder / "expected.npy")
    answer = mlflow.pyfunc.load_model("models:/ours/1").predict(np.load(folder / "rows.npy"))
    assert np.array_equal(next(iter(answer.values())), expected), answer
    sys.stdout.write("the session ended well\n")


main()
