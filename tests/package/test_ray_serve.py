"""Ray Serve's application: a module, a configuration of the fields that Ray has, and the sealed artifact."""

from __future__ import annotations

import ast

import pytest
import yaml

import vitrify
from vitrify import package
from vitrify.core.errors import UsageError

# Of ``ServeDeploySchema``, ``ServeApplicationSchema`` and ``DeploymentSchema`` of Ray 2.
FIELDS = {
    "whole": {"proxy_location", "http_options", "grpc_options", "logging_config", "applications", "target_capacity"},
    "application": {
        *("name", "route_prefix", "import_path", "runtime_env", "host", "port", "deployments", "args"),
        *("logging_config", "external_scaler_enabled", "autoscaling_policy"),
    },
    "deployment": {
        *("name", "num_replicas", "max_ongoing_requests", "max_queued_requests", "user_config", "autoscaling_config"),
        *("graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s", "health_check_period_s"),
        *("health_check_timeout_s", "ray_actor_options", "placement_group_bundles", "logging_config"),
        *("placement_group_strategy", "max_replicas_per_node", "request_router_config"),
    },
}


@pytest.fixture
def exported(churn, tmp_path):
    package.export(churn, tmp_path / "out", "ray-serve", allow=["acme.Scale"], replicas=(2, 5))
    return tmp_path / "out"


def test_the_configuration_has_fields_that_ray_has(exported, churn):
    told = yaml.safe_load((exported / "serve.yaml").read_bytes())
    (application,) = told["applications"]
    (deployment,) = application["deployments"]
    assert told.keys() <= FIELDS["whole"]
    assert application.keys() <= FIELDS["application"]
    assert deployment.keys() <= FIELDS["deployment"]
    scaling = deployment["autoscaling_config"]
    assert (scaling["min_replicas"], scaling["max_replicas"]) == (2, 5)
    assert str(churn.digest) in str(application["runtime_env"])


def test_the_module_is_what_the_configuration_imports(exported, churn):
    told = yaml.safe_load((exported / "serve.yaml").read_bytes())["applications"][0]
    source = (exported / "app.py").read_text()
    module, _, name = told["import_path"].partition(":")
    tree = ast.parse(source)
    assert (module, name) in {("app", one.targets[0].id) for one in tree.body if isinstance(one, ast.Assign)}
    assert f"name={told['deployments'][0]['name']!r}" in source
    assert str(churn.digest) in source
    assert "'acme.Scale'" in source


def test_the_artifact_lies_beside(exported, churn):
    assert vitrify.open(str(exported / "artifact")).digest == churn.digest


def test_the_same_artifact_gives_the_same_bytes(churn, tmp_path, tree):
    for name in ("a", "b"):
        package.export(churn, tmp_path / name, "ray-serve")
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


@pytest.mark.parametrize("replicas", [(0, 1), (3, 2)])
def test_a_number_of_replicas_that_nobody_could_run_is_refused(churn, tmp_path, replicas):
    with pytest.raises(UsageError, match="replicas"):
        package.export(churn, tmp_path / "out", "ray-serve", replicas=replicas)
