"""The registry knows where its versions run: from the start of a server to its end, whatever happens between."""

from __future__ import annotations

import dataclasses
import time

import pytest
from served_models import multiplier
from whole_server import whole

from vitrify.core.errors import UnavailableError
from vitrify.registry import open_registry
from vitrify.serve.observe.deployments import Deployments
from vitrify.serve.settings import ModelSettings
from vitrify.stores.oci_layout import OciLayout


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Return a registry whose model churn has two versions, the first in production; a server finds it, too."""
    monkeypatch.setenv("VITRIFY_REGISTRY", str(tmp_path / "registry"))
    made = open_registry()
    store = OciLayout(tmp_path / "trained")
    for version, factor in (("1.0.0", 1.0), ("2.0.0", 2.0)):
        made.register("churn", multiplier(store, f"times{factor:g}", factor), version=version)
    made.promote("churn", "1.0.0", "production")
    yield made
    made.close()


def shown(registry, **asked):
    return [(one.version, one.target, one.ended is None) for one in registry.deployments(**asked)]


def test_a_server_that_is_told_to_records_what_it_serves_and_that_it_ends(registry, tmp_path):
    models = [ModelSettings(reference="churn@production")]
    with whole("python", OciLayout(tmp_path / "own"), models, server={"deployment": "eu-west"}):
        until = time.monotonic() + 60
        while not shown(registry) and time.monotonic() < until:
            time.sleep(0.05)
        assert shown(registry) == [("1.0.0", "eu-west", True)]
        (node,) = (node for node in registry.lineage("churn:1.0.0").nodes if node.kind == "deployment")
        assert (node.label, node.facts["running"]) == ("eu-west", True)
    assert shown(registry, ended=True) == [("1.0.0", "eu-west", False)]


def test_a_server_that_is_not_told_to_records_nothing(registry, tmp_path):
    with whole("python", OciLayout(tmp_path / "own"), [ModelSettings(reference="churn@production")]):
        pass
    assert shown(registry, ended=True) == []


class Watched:
    """What a server would tell, one look at a time, on a registry that can be away."""

    def __init__(self, registry, target="eu-west"):
        self.said, self.down, self.registry = [], False, registry
        self.deployments = Deployments(target, self._connect, lambda event, **facts: self.said.append((event, facts)))

    def _connect(self):
        if self.down:
            raise UnavailableError("the registry does not answer")
        return open_registry()

    def look(self, *served):
        self.deployments.look(served)
        return shown(self.registry)


@pytest.fixture
def served(registry, tmp_path):
    """Return both versions as a server has them in its index."""
    with whole("python", OciLayout(tmp_path / "own"), [ModelSettings(reference="churn@production")]) as running:
        (first,) = running.server.engine.index()
    first = dataclasses.replace(first, state="READY")
    return first, dataclasses.replace(first, version="2.0.0", digest=registry.version("churn", "2.0.0").digest)


def test_what_runs_is_told_whenever_it_changes(registry, served):
    first, second = served
    watched = Watched(registry)
    assert watched.look(first) == [("1.0.0", "eu-west", True)]
    head = registry.head()
    watched.look(first)
    assert registry.head() == head
    assert watched.look(dataclasses.replace(first, state="LOADING"), second) == [("2.0.0", "eu-west", True)]
    assert watched.look() == []
    assert [event for event, _ in watched.said] == ["deployment started", "deployment ended"] * 2


def test_what_a_killed_server_left_ends_when_it_is_started_again_and_no_other_targets(registry, served):
    first, second = served
    Watched(registry).look(first, second)
    Watched(registry, "us-east").look(first)
    assert Watched(registry).look(second) == [("1.0.0", "us-east", True), ("2.0.0", "eu-west", True)]


def test_a_registry_that_is_away_is_said_once_and_told_later(registry, served):
    watched = Watched(registry)
    watched.down = True
    watched.look(served[0])
    assert watched.look(served[0]) == []
    assert [event for event, _ in watched.said] == ["deployment not recorded"]
    watched.down = False
    assert watched.look(served[0]) == [("1.0.0", "eu-west", True)]


def test_what_the_registry_refuses_holds_up_nothing_else(registry, served):
    registry.set_status("churn", "2.0.0", "yanked", "leaks the label")
    watched = Watched(registry)
    assert watched.look(*served) == [("1.0.0", "eu-west", True)]
    assert "leaks the label" in dict(watched.said)["deployment not recorded"]["error"]


@pytest.mark.parametrize(
    "changed", [{"digest": "sha256:" + "0" * 64}, {"reference": "other"}, {"reference": "./churn"}]
)
def test_what_is_no_version_of_the_registry_is_said_and_not_recorded(registry, served, changed):
    watched = Watched(registry)
    assert watched.look(dataclasses.replace(served[0], **changed)) == []
    assert [event for event, _ in watched.said] == ["no version of the registry: where it runs is not recorded"]


def test_a_name_in_the_store_counts_where_the_bytes_are_the_registrys(registry, served):
    assert Watched(registry).look(dataclasses.replace(served[1], reference="churn:2.0.0")) == [
        ("2.0.0", "eu-west", True)
    ]
