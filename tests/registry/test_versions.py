"""Versions: pinned for ever to their content; what is said about them may change; the same on every database."""

from __future__ import annotations

import json

import pytest
from registries import acting, artifact, prove, put, register, statement

from vitrify.core.digest import Digest
from vitrify.core.errors import (
    ConflictError,
    DeniedError,
    MalformedError,
    ReferenceNotFoundError,
    UsageError,
    VitrifyError,
)
from vitrify.registry import requests as r


def test_a_version_says_what_was_registered_and_is_found_by_every_name(registry):
    about = {
        "metrics": {"auc": 0.93, "zero": 0.0, "tiny": 1e-300},
        "parameters": {"depth": "3"},
        "datasets": {"train": "sha256:aa"},
        "commit": "abc",
        "run": "run 7",
        "card": "# Card",
        "description": "first",
        "tags": {"team": "risk"},
    }
    made = register(registry.backend, version="1.2.0", **about)
    assert {name: getattr(made, name) for name in about} == about
    assert (made.number, made.stage, made.status, made.author) == (1, "development", "active", "ann")
    registry.set_alias("churn", "champion", "1.2.0")
    registry.promote("churn", "1.2.0", "production")
    found = registry.version("churn", "1.2.0")
    for which in ("1", "latest", "@champion", "@production"):
        assert registry.version("churn", which) == found
    assert found.aliases == ("champion",)


def test_versions_count_on_beside_names_of_their_own(registry):
    made = [register(registry.backend, seed=f"{n}", version=name) for n, name in enumerate((None, "1.0.0", None))]
    assert [version.version for version in made] == ["1", "1.0.0", "3"]
    assert registry.version("churn", "2").version == "1.0.0"
    assert registry.model("churn").versions == 3


@pytest.mark.parametrize(
    "version", ["1", "v1.0.0", "1.0", "01.0.0", "1.0.0 ", "../1.0.0", "1.0.0-", "latest", "1.0.0\n"]
)
def test_what_is_no_semantic_version_is_refused(registries, version):
    with pytest.raises(UsageError):
        register(registries.open(), version=version)


def test_a_version_is_registered_once(registry):
    register(registry.backend, version="1.0.0")
    with pytest.raises(ConflictError, match="a version never changes"):
        register(registry.backend, seed="other", version="1.0.0")


def test_content_that_was_never_uploaded_is_no_version(registry):
    with pytest.raises(ReferenceNotFoundError):
        registry.do(r.CreateVersion(model="churn", digest=f"sha256:{'0' * 64}"))
    config_only = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"})
    for data in (b"no manifest", config_only.encode(), b"[" * 10_000):
        with pytest.raises(MalformedError):
            registry.do(r.CreateVersion(model="churn", digest=put(registry.backend, data)))
    assert registry.head().seq == 0


def test_a_manifest_whose_weights_are_missing_is_no_version(registry):
    from registries import blobs_of

    config, _, manifest = blobs_of("half")
    put(registry.backend, config)
    with pytest.raises(ReferenceNotFoundError, match="no content"):
        registry.do(r.CreateVersion(model="churn", digest=put(registry.backend, manifest)))


def test_the_index_lists_the_source_and_what_was_proven_from_it(registry):
    backend = registry.backend
    source, variant = artifact(backend, "source"), artifact(backend, "variant")
    prove(backend, variant, source)
    made = registry.do(r.CreateVersion(model="churn", digest=source, variants=(variant,)))
    index = json.loads(b"".join(map(bytes, backend.read(Digest.parse(made.index)))))
    assert [entry["digest"] for entry in index["manifests"]] == [source, variant]
    assert [entry.digest for entry in made.variants] == [source, variant]


@pytest.mark.parametrize("verdict", ["found", "not checked", None])
def test_a_variant_that_nothing_proves_is_refused(registries, verdict):
    backend = registries.open()
    source, variant = artifact(backend, "source"), artifact(backend, "variant")
    reports = (
        [] if verdict is None else [{"check": "parity", "verdict": "clean"}, {"check": "parity", "verdict": verdict}]
    )
    backend.do(r.Attach(subject=variant, content=statement(variant, source=source, reports=reports)))
    other = statement(variant, source=variant, reports=[{"check": "parity", "verdict": "clean"}])
    backend.do(r.Attach(subject=variant, content=other))
    with pytest.raises(DeniedError, match="nothing proves"):
        backend.do(r.CreateVersion(model="churn", digest=source, variants=(variant,)))


def test_a_variant_is_added_and_nothing_is_taken_away(registry):
    made = register(registry.backend)
    variant = artifact(registry.backend, "variant")
    prove(registry.backend, variant, made.digest)
    varied = registry.do(r.AddVariant(model="churn", version="1", digest=variant))
    assert varied.digest == made.digest
    assert varied.variants[:1] == made.variants
    assert varied.index != made.index
    with pytest.raises(UsageError, match="each once"):
        registry.do(r.AddVariant(model="churn", version="1", digest=variant))


def test_what_is_said_about_a_version_changes_and_what_it_pins_does_not(registry):
    made = register(registry.backend, tags={"a": "1"}, metrics={"auc": 0.5})
    changed = registry.update_version("churn", "1", description="new", card="# New", tags={"a": None, "b": "2"})
    assert (changed.description, changed.card, changed.tags) == ("new", "# New", {"b": "2"})
    assert changed.replace(description="", card="", tags=made.tags, updated=made.updated) == made
    assert [version.version for version in registry.search("tags.b = '2'")] == ["1"]
    assert not list(registry.search("tags.a = '1'"))


def test_a_withdrawn_version_says_why_and_a_restored_one_is_as_before(registry):
    register(registry.backend)
    register(registry.backend, seed="second")
    yanked = registry.set_status("churn", "2", "yanked", "leaks")
    assert (yanked.status, yanked.reason) == ("yanked", "leaks")
    assert registry.version("churn", "latest").version == "1"
    assert registry.version("churn", "2").status == "yanked"  # whoever names it exactly still finds it
    for refused in (
        lambda: registry.promote("churn", "2", "staging"),
        lambda: registry.set_alias("churn", "champion", "2"),
        lambda: registry.deploy("churn", "2", "eu"),
    ):
        with pytest.raises(ConflictError, match="leaks"):
            refused()
    assert registry.set_status("churn", "2", "active").status == "active"
    assert registry.version("churn", "latest").version == "2"


def test_a_deleted_version_keeps_its_history_and_gives_up_aliases_and_content(registry):
    register(registry.backend)
    registry.set_alias("churn", "champion", "1")
    registry.delete_version("churn", "1", "a mistake")
    found = registry.version("churn", "1")
    assert (found.status, found.reason, found.stage, found.aliases) == ("deleted", "a mistake", "archived", ())
    assert registry.model("churn").versions == 0
    for refused in (
        lambda: registry.version("churn", "latest"),
        lambda: registry.version("churn", "@champion"),
        lambda: registry.promote("churn", "1", "staging"),
        lambda: registry.update_version("churn", "1", description="x"),
        lambda: registry.delete_version("churn", "1"),
        lambda: registry.set_status("churn", "1", "active"),
    ):
        with pytest.raises(ReferenceNotFoundError):
            refused()
    assert register(registry.backend).number == 2


@pytest.mark.parametrize(
    "alias", ["", "latest", "production", "Staging", "v1", "1", "a b", "a/b", "@x", "..", "a" * 200]
)
def test_an_alias_that_could_mean_something_else_is_refused(registries, alias):
    backend = registries.open()
    register(backend)
    with pytest.raises(UsageError):
        backend.do(r.SetAlias(model="churn", alias=alias, version="1"))


def test_an_alias_leads_to_one_version_and_moves(registry):
    for seed in ("a", "b"):
        register(registry.backend, seed=seed)
    registry.set_alias("churn", "champion", "1")
    moved = registry.set_alias("churn", "champion", "2")
    assert moved.aliases == ("champion",)
    assert registry.version("churn", "1").aliases == ()
    registry.remove_alias("churn", "champion")
    registry.remove_alias("churn", "champion")  # taking away what is not there is no error
    with pytest.raises(ReferenceNotFoundError):
        registry.version("churn", "@champion")


def test_numbers_that_are_none_are_refused(registries):
    backend = registries.open()
    for metrics in ({"auc": float("nan")}, {"auc": float("inf")}, {"n": 2**70}):
        with pytest.raises(VitrifyError):
            register(backend, metrics=metrics)


def test_a_statement_about_another_digest_is_refused(registry):
    made = register(registry.backend)
    other = statement(f"sha256:{'1' * 64}", "https://example.org/metrics")
    with pytest.raises(UsageError, match="not about"):
        registry.attach(made.digest, other.encode())
    for bad in (b"", b"{}", b"[]", b"[" * 100_000, b'{"payload": "!"}', b'{"payload": 7}'):
        with pytest.raises(VitrifyError):
            registry.attach(made.digest, bad)
    assert registry.attestations(made.digest) == ()


def test_a_stranger_registers_nothing_under_a_name_that_is_not_his(registry):
    digest = artifact(registry.backend)
    eve = acting(registry.backend, "eve", "writer", models=("mine/*",))
    with pytest.raises(DeniedError):
        eve.do(r.CreateVersion(model="churn", digest=digest))
    assert eve.do(r.CreateVersion(model="mine/churn", digest=digest)).author == "eve"
