"""Provenance of real saves and conversions, held against the shape that SLSA 1.0 wants."""

from __future__ import annotations

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import vitrify
from vitrify.core.attestation import PROVENANCE, SLSA
from vitrify.core.errors import UsageError
from vitrify.trust.provenance import LOCAL, SAVED, TRANSFORMED, Provenance, builder_id, read, slsa

DIGESTS = {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string", "pattern": "^[0-9a-f]+$"}}
RESOURCE = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "format": "uri"},
        "digest": DIGESTS,
        "name": {"type": "string"},
        "downloadLocation": {"type": "string"},
        "mediaType": {"type": "string"},
        "content": {"type": "string"},
        "annotations": {"type": "object"},
    },
    "additionalProperties": False,
    "anyOf": [{"required": ["uri"]}, {"required": ["digest"]}, {"required": ["content"]}],
}
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$"}
# Written from https://slsa.dev/spec/v1.0/provenance#schema; extension fields have the prefix of who made them.
SCHEMA = {
    "type": "object",
    "properties": {
        "buildDefinition": {
            "type": "object",
            "properties": {
                "buildType": {"type": "string", "pattern": "^[a-z][a-z0-9+.-]*:."},
                "externalParameters": {"type": "object", "minProperties": 1},
                "internalParameters": {"type": "object"},
                "resolvedDependencies": {"type": "array", "items": RESOURCE},
            },
            "required": ["buildType", "externalParameters"],
            "additionalProperties": False,
        },
        "runDetails": {
            "type": "object",
            "properties": {
                "builder": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "pattern": "^[a-z][a-z0-9+.-]*:."},
                        "version": {"type": "object", "additionalProperties": {"type": "string"}},
                        "builderDependencies": {"type": "array", "items": RESOURCE},
                    },
                    "required": ["id"],
                    "additionalProperties": False,
                },
                "metadata": {
                    "type": "object",
                    "properties": {"invocationId": {"type": "string"}, "startedOn": TIME, "finishedOn": TIME},
                    "patternProperties": {"^vitrify_": {}},
                    "additionalProperties": False,
                },
                "byproducts": {"type": "array", "items": RESOURCE},
            },
            "required": ["builder"],
            "additionalProperties": False,
        },
    },
    "required": ["buildDefinition", "runDetails"],
    "additionalProperties": False,
}


def provenance_of(artifact):
    (found,) = [one.predicate for one in artifact.attestations if one.predicate_type == SLSA]
    jsonschema.validate(found, SCHEMA)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model saved in one run of a build service, and its conversion."""
    from vitrify.stores.oci_layout import OciLayout

    store = OciLayout(tmp_path_factory.mktemp("store"))
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VITRIFY_BUILDER_ID", "https://ci.example.org/runner/7")
        saved = vitrify.save(LinearRegression().fit(X, X[:, 0]), "line", example=X, store=store)
    return saved, vitrify.convert(saved, to="onnx", store=store)


def test_a_save_says_who_built_what(made):
    found = provenance_of(made[0])
    assert found["buildDefinition"]["buildType"] == SAVED
    assert found["buildDefinition"]["externalParameters"] == {"format": "skops"}
    assert found["runDetails"]["builder"]["id"] == "https://ci.example.org/runner/7"
    assert found["runDetails"]["builder"]["version"]["vitrify"]


def test_a_conversion_names_its_source_by_digest_and_every_step_with_its_options(made):
    saved, converted = made
    found = provenance_of(converted)
    definition = found["buildDefinition"]
    assert definition["buildType"] == TRANSFORMED
    assert definition["externalParameters"]["plan"]["steps"][0]["transform"] == "skops-to-onnx"
    assert definition["externalParameters"]["plan"] == converted.document.lineage["plan"]
    assert {"name": "source", "digest": {"sha256": saved.digest.hex}, "annotations": {"vitrify_role": "source"}} in (
        definition["resolvedDependencies"]
    )
    known = read(found)
    assert (known.builder, known.build_type, known.source) == (LOCAL, TRANSFORMED, str(saved.digest))


def test_the_commit_and_the_data_are_dependencies():
    git = {"commit": "c" * 40, "dirty": True}
    data = {"train": f"sha256:{'d' * 64}"}
    found = slsa({"when": "2026-03-01T12:00:00+00:00", "who": "ada", "git": git}, kind="onnx", datasets=data)
    jsonschema.validate(found, SCHEMA)
    assert [one["name"] for one in found["buildDefinition"]["resolvedDependencies"]] == ["train", "code"]
    known = read(found)
    assert known == Provenance(
        builder=LOCAL, build_type=SAVED, commit="c" * 40, dirty=True, when="2026-03-01T12:00:00+00:00", who="ada"
    )


def test_provenance_that_was_written_before_it_was_slsa_is_still_read():
    old = {"when": "2026-01-01T00:00:00+00:00", "who": "ada", "git": {"commit": "c" * 40, "dirty": False}}
    known = read({"producer": "vitrify 0.1.0", **old})
    assert (known.commit, known.dirty, known.who, known.builder) == ("c" * 40, False, "ada", "")
    assert PROVENANCE != SLSA


def test_two_commits_are_not_one():
    code = [{"digest": {"gitCommit": letter * 40}} for letter in "ab"]
    assert read({"buildDefinition": {"resolvedDependencies": code}}).commit == ""


@pytest.mark.parametrize("named", ["runner 7", "https:", "//ci", "ci", "https://ci\n.example", "x:" + "a" * 2000])
def test_a_builder_that_is_no_uri_is_refused_before_anything_is_saved(named, monkeypatch, store):
    monkeypatch.setenv("VITRIFY_BUILDER_ID", named)
    with pytest.raises(UsageError, match="expected a URI"):
        builder_id()
    with pytest.raises(UsageError, match="expected a URI"):
        vitrify.save({"w": np.ones(3)}, "w")
    assert store.names.all() == {}


KEYS = (
    "buildDefinition",
    "runDetails",
    "resolvedDependencies",
    "digest",
    "gitCommit",
    "annotations",
    "builder",
    "id",
    "git",
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYS), json, max_size=5))
def test_whatever_stands_there_is_read_without_an_error(predicate):
    known = read(predicate)
    assert isinstance(known.builder, str)
    assert known.dirty in {True, False, None}
