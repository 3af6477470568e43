"""Bills of materials of real artifacts, valid against the schemas, and the same bytes every time."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import vitrify
from vitrify.cli.sbom import command
from vitrify.core.attestation import SLSA
from vitrify.core.digest import Digest
from vitrify.core.document import SCHEMA, Document, Environment
from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.manifest import MODEL_CONFIG_TYPE, Descriptor, Manifest
from vitrify.stores.oci_layout import OciLayout
from vitrify.trust import cyclonedx, spdx
from vitrify.trust.evidence import gather
from vitrify.trust.inventory import Inventory, package_url
from vitrify.trust.keys import PrivateKey

DATA = f"sha256:{'d' * 64}"


def assert_valid_cyclonedx(bill):
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(bill)) is None


def assert_valid_spdx(bill):
    from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

    assert validate_full_spdx_document(JsonLikeDictParser().parse(bill)) == []


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("store"))
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(18, 90, 40), "income": rng.normal(3e4, 1e4, 40)})
    model = LogisticRegression(max_iter=1000).fit(table, np.where(table["age"] > 50, "yes", "no"))
    vitrify.save(model, "churn:1.2.0", example=table, store=store)
    vitrify.convert("churn:1.2.0", to="onnx", name="churn-onnx", store=store)
    vitrify.save({"w": np.ones(3)}, "weights", store=store)
    return store


def inventory(shelf, name, **more):
    one = vitrify.open(name, store=shelf)
    return Inventory.of(one.name, one.digest, one.manifest, one.document, attestations=one.attestations, **more)


@pytest.mark.parametrize("name", ["churn:1.2.0", "churn-onnx", "weights"])
@pytest.mark.parametrize("licence", ["", "Apache-2.0", "MIT OR Apache-2.0", "our own terms"])
def test_bills_of_every_kind_of_artifact_are_valid(shelf, name, licence):
    thing = inventory(shelf, name, licence=licence, metrics={"auc": 0.93}, datasets={"train": DATA})
    assert_valid_cyclonedx(cyclonedx.bom(thing))
    assert_valid_spdx(spdx.document(thing))


def test_the_same_artifact_gives_the_same_bytes(shelf):
    for make in (cyclonedx.bom, spdx.document):
        first, second = (json.dumps(make(inventory(shelf, "churn-onnx"))) for _ in range(2))
        assert first == second
    assert inventory(shelf, "churn-onnx").serial != inventory(shelf, "churn:1.2.0").serial


def test_cyclonedx_has_the_model_its_files_its_card_and_what_it_descends_from(shelf):
    source, artifact = (vitrify.open(name, store=shelf) for name in ("churn:1.2.0", "churn-onnx"))
    bill = cyclonedx.bom(inventory(shelf, "churn-onnx", metrics={"auc": 0.93}, datasets={"train": DATA}))
    model = bill["metadata"]["component"]
    assert model["type"] == "machine-learning-model"
    assert model["hashes"] == [{"alg": "SHA-256", "content": artifact.digest.hex}]
    files = {file["name"]: file["hashes"][0]["content"] for file in model["components"]}
    assert files == {path: layer.content.hex for path, layer in artifact.manifest.files.items()}
    assert model["pedigree"]["ancestors"][0]["hashes"][0]["content"] == source.digest.hex
    card = model["modelCard"]
    assert card["modelParameters"]["task"] == "classification"
    assert [one["format"] for one in card["modelParameters"]["inputs"]] == [
        "age: int64[batch]",
        "income: float64[batch]",
    ]
    assert card["modelParameters"]["datasets"] == [{"ref": "dataset:train"}]
    assert card["quantitativeAnalysis"] == {"performanceMetrics": [{"type": "auc", "value": "0.93"}]}
    libraries = {one["purl"] for one in bill["components"] if one["type"] == "library"}
    assert libraries == {package_url(*pair) for pair in artifact.document.environment.distributions.items()}
    (needs,) = [one["dependsOn"] for one in bill["dependencies"] if one["ref"] == str(artifact.digest)]
    assert set(needs) == libraries | {"dataset:train"}


def test_the_time_is_that_of_the_build_and_none_where_nobody_said_so(shelf):
    artifact = vitrify.open("churn:1.2.0", store=shelf)
    (when,) = [
        one.predicate["runDetails"]["metadata"]["finishedOn"]
        for one in artifact.attestations
        if one.predicate_type == SLSA
    ]
    assert cyclonedx.bom(inventory(shelf, "churn:1.2.0"))["metadata"]["timestamp"] == when
    assert spdx.document(inventory(shelf, "churn:1.2.0"))["creationInfo"]["created"] == when.replace("+00:00", "Z")
    undated = Inventory.of(artifact.name, artifact.digest, artifact.manifest, artifact.document)
    assert "timestamp" not in cyclonedx.bom(undated)["metadata"]
    assert spdx.document(undated)["creationInfo"]["created"] == "1970-01-01T00:00:00Z"
    assert_valid_cyclonedx(cyclonedx.bom(undated))


def test_spdx_has_the_model_its_files_its_libraries_and_its_source(shelf):
    source, artifact = (vitrify.open(name, store=shelf) for name in ("churn:1.2.0", "churn-onnx"))
    bill = spdx.document(inventory(shelf, "churn-onnx", licence="Apache-2.0"))
    packages = {one["SPDXID"]: one for one in bill["packages"]}
    model = packages[spdx.MODEL]
    assert model["checksums"] == [{"algorithm": "SHA256", "checksumValue": artifact.digest.hex}]
    assert model["licenseDeclared"] == "Apache-2.0"
    assert "input: age: int64[batch]" in model["comment"]
    by_kind = {}
    for relation in bill["relationships"]:
        by_kind.setdefault(relation["relationshipType"], set()).add(packages[relation["relatedSpdxElement"]]["name"])
    assert by_kind["CONTAINS"] == set(artifact.manifest.files)
    assert by_kind["DEPENDS_ON"] == set(artifact.document.environment.distributions)
    assert by_kind["DESCENDANT_OF"] == {str(source.digest)}


def hostile(name, version, path, lineage):
    layer = Descriptor(media_type="x", digest=DATA, size=1, annotations={"org.cncf.model.filepath": path})
    config = Descriptor(media_type=MODEL_CONFIG_TYPE, digest=DATA, size=1)
    manifest = Manifest.of_model(config, (layer,), {})
    environment = Environment(python=version, platform=name, distributions={name: version, "numpy": version})
    document = Document(schema=SCHEMA, format=name, runtime=None, entry={}, environment=environment, lineage=lineage)
    return Inventory.of("m", Digest.parse(DATA), manifest, document)


TEXT = st.text(max_size=12) | st.sampled_from(["../x", "a\x00b", "pkg:pypi/evil@1", "<script>", "\u202e", "", "\ud7ff"])


@given(
    TEXT, TEXT, st.sampled_from(["a", "ä/b c", "x" * 300]), st.sampled_from([None, {}, {"source": "x"}, {"source": 3}])
)
def test_what_a_hostile_artifact_says_gives_a_valid_bill_or_a_typed_error(name, version, path, lineage):
    thing = hostile(name, version, path, lineage)
    for make, check in ((cyclonedx.bom, assert_valid_cyclonedx), (spdx.document, assert_valid_spdx)):
        try:
            bill = make(thing)
        except MalformedError:
            continue
        check(bill)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_metric_that_is_no_number_is_refused(shelf, value):
    with pytest.raises(UsageError, match="expected a finite number"):
        inventory(shelf, "weights", metrics={"auc": value})


def test_the_command_prints_writes_and_attaches(shelf, tmp_path):
    where = ["--store", str(shelf.root)]
    printed = CliRunner().invoke(command, ["churn:1.2.0", "--metric", "auc=0.93", "--licence", "MIT", *where])
    assert printed.exit_code == 0
    assert_valid_cyclonedx(json.loads(printed.output))
    written = CliRunner().invoke(command, ["churn:1.2.0", "--format", "spdx", "-o", str(tmp_path / "s.json"), *where])
    assert written.exit_code == 0
    assert_valid_spdx(json.loads((tmp_path / "s.json").read_text()))
    for form, kind in (("cyclonedx", cyclonedx.PREDICATE_TYPE), ("spdx", spdx.PREDICATE_TYPE)):
        assert CliRunner().invoke(command, ["weights", "--format", form, "--attach", *where]).exit_code == 0
        attached = [one for one in vitrify.open("weights", store=shelf).attestations if one.predicate_type == kind]
        assert len(attached) == 1
        (assert_valid_spdx if form == "spdx" else assert_valid_cyclonedx)(attached[0].predicate)


@pytest.mark.parametrize("figure", ["auc", "auc=", "auc=x", "auc=nan", "=1"])
def test_a_metric_on_the_command_line_is_a_name_and_a_number(figure):
    done = CliRunner().invoke(command, ["weights", "--metric", figure])
    assert done.exit_code == 2
    assert "is no NAME=NUMBER" in done.output


def test_an_attached_bill_can_be_signed_and_a_key_without_attaching_is_a_mistake(shelf, tmp_path):
    key = PrivateKey.generate()
    key.save(tmp_path / "k.pem", "secret")
    (tmp_path / "pass").write_text("secret\n")
    given = ["--key", str(tmp_path / "k.pem"), "--passphrase-file", str(tmp_path / "pass"), "--store", str(shelf.root)]
    assert CliRunner().invoke(command, ["churn-onnx", "--attach", *given]).exit_code == 0
    artifact = vitrify.open("churn-onnx", store=shelf)
    found = [one for one in gather(shelf, artifact.digest, [key.public]) if one.signers == (key.keyid,)]
    assert [one.attestation.predicate_type for one in found] == [cyclonedx.PREDICATE_TYPE]
    assert_valid_cyclonedx(found[0].attestation.predicate)
    done = CliRunner().invoke(command, ["churn-onnx", *given])
    assert done.exit_code == 2
    assert "add --attach" in done.output
