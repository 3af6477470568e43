"""Lineage leads from data and code to every deployment, and back."""

import pytest
from registries import acting, artifact, prove, register
from sqlalchemy import insert

from vitrify.core.errors import DeniedError, ReferenceNotFoundError, UsageError
from vitrify.inspection.drawing import rails, svg
from vitrify.registry import requests as r
from vitrify.registry.database import schema
from vitrify.registry.drawing import graph_of


@pytest.fixture
def made(backend, registry):
    """A version from data and code, with a variant, deployed twice, once ended."""
    variant = artifact(backend, "variant")
    source = artifact(backend, "source")
    prove(backend, variant, source)
    request = r.CreateVersion(
        model="churn", digest=source, version="1.0.0", datasets={"train": "sha256:aa", "test": "bb"}, commit="c0ffee"
    )
    backend.do(request)
    first = registry.deploy("churn", "1.0.0", "eu-west", replicas=3)
    registry.end_deployment(first.id)
    registry.deploy("churn", "1.0.0", "us-east")
    return source


def edges(lineage):
    return {(edge.source, edge.kind, edge.target) for edge in lineage.edges}


def test_both_directions_from_the_middle(registry, made):
    found = registry.lineage("churn:1.0.0")
    own = f"artifact:{made}"
    assert edges(found) == {
        ("dataset:sha256:aa", "trained on", own),
        ("dataset:bb", "trained on", own),
        ("commit:c0ffee", "built from", own),
        (own, "registered", "version:churn:1.0.0"),
        ("version:churn:1.0.0", "deployed", "deployment:1"),
        ("version:churn:1.0.0", "deployed", "deployment:2"),
    }
    running = {node.label: node.facts["running"] for node in found.nodes if node.kind == "deployment"}
    assert running == {"eu-west": False, "us-east": True}


def test_from_data_to_where_it_runs(registry, made):
    found = registry.lineage("dataset:sha256:aa", "down")
    assert {node.kind for node in found.nodes} == {"dataset", "artifact", "version", "deployment"}
    assert {node.kind for node in registry.lineage("deployment:1", "up").nodes} == {
        *("dataset", "commit", "artifact", "version", "deployment")
    }
    assert len(registry.lineage("dataset:sha256:aa", "down", depth=1).nodes) == 2
    assert registry.lineage(made, "up").root == f"artifact:{made}"


def test_a_new_name_comes_with_its_history(registry, made):
    registry.rename_model("churn", "team/churn")
    assert registry.lineage("team/churn:1.0.0").root == "version:team/churn:1.0.0"
    assert "version:team/churn:1.0.0" in {node.id for node in registry.lineage(f"artifact:{made}").nodes}


def test_versions_of_a_model_that_was_given_up_stay_in_the_graph(registry, made):
    registry.delete_model("churn")
    node = next(node for node in registry.lineage(made).nodes if node.kind == "version")
    assert node.facts == {"status": "deleted"}


def test_nobody_sees_what_he_may_not_touch(backend, made):
    bob = acting(backend, "bob", "reader", models=("other*",))
    with pytest.raises(DeniedError):
        bob.lineage("churn:1.0.0")
    assert {node.kind for node in bob.lineage(made).nodes} == {"artifact", "dataset", "commit"}


@pytest.mark.parametrize("node", ["nobody", "churn:9.9.9", "deployment:77", "churn@nobody"])
def test_what_is_not_there_is_not_found(registry, made, node):
    with pytest.raises(ReferenceNotFoundError):
        registry.lineage(node)


def test_depth_is_bounded(registry, made):
    with pytest.raises(UsageError, match="up to 100 steps"):
        registry.lineage("churn", depth=101)


def test_it_can_be_drawn(registry, made):
    graph = graph_of(registry.lineage("churn"))
    kinds = [node.operator.split()[0] for node in graph.nodes]
    assert kinds.index("artifact") < kinds.index("version") < kinds.index("deployment")
    assert "c0ffee" in rails.text(graph)
    assert "deployment us-east" in svg.svg(graph)


def test_a_chain_of_versions_is_followed(backend, registry):
    for number in range(5):
        register(backend, model=f"m{number}", seed="one", datasets={"train": "d"})
    assert len([node for node in registry.lineage("dataset:d").nodes if node.kind == "version"]) == 5


def test_a_version_shows_the_forms_that_were_made_of_it(backend, registry, made):
    variant = registry.version("churn", "1.0.0").digest
    other = artifact(backend, "variant")
    backend.do(r.AddVariant(model="churn", version="1.0.0", digest=other))
    step = {"source": f"artifact:{variant}", "target": f"artifact:{other}", "kind": "converted", "facts": "{}"}
    with backend.database.write() as connection:  # as an artifact says that was really converted
        connection.execute(insert(schema.edges), step)
    assert (f"artifact:{made}", "converted", f"artifact:{other}") in edges(registry.lineage("churn:1.0.0"))


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "\u0663", "-1", ""])
def test_what_is_no_number_of_a_deployment_is_not_there(registry, made, number):
    with pytest.raises((ReferenceNotFoundError, UsageError)):
        registry.lineage(f"deployment:{number}")


def test_what_runs_is_listed_newest_first_and_what_ran_where_it_is_asked_for(registry, made):
    assert [(one.target, one.ended) for one in registry.deployments()] == [("us-east", None)]
    everything = registry.deployments("churn", ended=True)
    assert [(one.target, one.ended is None) for one in everything] == [("us-east", True), ("eu-west", False)]
    assert everything[1].facts == {"replicas": 3}
    assert registry.deployments("other", ended=True) == ()
    assert len(registry.do(r.ListDeployments(ended=True, limit=1)).deployments) == 1
    assert acting(registry.backend, "bob", "reader", models=("other",)).deployments(ended=True) == ()
    registry.rename_model("churn", "leavers")
    assert [one.model for one in registry.deployments("leavers")] == ["leavers"]
