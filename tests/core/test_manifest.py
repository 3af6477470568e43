"""Manifests and configurations follow the OCI image and the CNCF ModelPack specifications.

``RULES`` is ours, written from the texts of ModelPack's ``spec.md``, ``config.md`` and ``annotations.md`` and of
OCI's ``manifest.md`` and ``descriptor.md``.
"""

import json
from typing import get_args

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import Digest
from vitrify.core.errors import MalformedError, ReferenceNotFoundError
from vitrify.core.manifest import (
    EMPTY_TYPE,
    FILEPATH,
    MANIFEST_TYPE,
    MODEL_CONFIG_TYPE,
    Descriptor,
    FileKind,
    Manifest,
    ModelConfig,
    check_filepath,
    layer_type,
)

_DIGEST = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}


def _object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _descriptor(media_type):
    return _object(
        ("mediaType", "digest", "size"),
        mediaType=media_type,
        digest=_DIGEST,
        size={"type": "integer", "minimum": 0},
        annotations=_STRINGS,
        artifactType={"type": "string"},
    )


_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_MODALITIES = {"type": "array", "items": {"enum": ["text", "image", "audio", "video", "embedding", "other"]}}
_KINDS = "weight|weight\\.config|doc|code|dataset"

RULES = {
    "manifest": _object(
        ("schemaVersion", "mediaType", "artifactType", "config", "layers"),
        schemaVersion={"const": 2},
        mediaType={"const": "application/vnd.oci.image.manifest.v1+json"},
        artifactType={"const": "application/vnd.cncf.model.manifest.v1+json"},
        config=_descriptor({"const": "application/vnd.cncf.model.config.v1+json"}),
        layers={
            "type": "array",
            "items": _descriptor(
                {"pattern": rf"^application/vnd\.cncf\.model\.({_KINDS})\.v1\.(raw|tar|tar\+gzip|tar\+zstd)$"}
            ),
        },
        subject=_descriptor(_TEXT),
        annotations=_STRINGS,
    ),
    "config": _object(
        ("descriptor", "config", "modelfs"),
        descriptor=_object(
            **dict.fromkeys(("family", "docURL", "sourceURL", "version", "revision", "vendor"), _TEXT),
            **dict.fromkeys(("title", "description"), _TEXT),
            **dict.fromkeys(("authors", "datasetsURL", "licenses"), _TEXTS),
            name={"type": "string", "minLength": 1},
            createdAt={"type": "string", "format": "date-time"},
        ),
        config=_object(
            **dict.fromkeys(("architecture", "format", "paramSize", "precision", "quantization"), _TEXT),
            capabilities=_object(
                **dict.fromkeys(("reasoning", "toolUsage", "reward"), _FLAG),
                inputTypes=_MODALITIES,
                outputTypes=_MODALITIES,
                knowledgeCutoff={"type": "string", "format": "date-time"},
                languages={"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2}$"}},
            ),
        ),
        modelfs=_object(
            ("type", "diffIds"), type={"const": "layers"}, diffIds={"type": "array", "items": _DIGEST, "minItems": 1}
        ),
    ),
}

PATHS = st.lists(
    st.text("ab._0", min_size=1, max_size=3).filter(lambda part: part.strip(".")), min_size=1, max_size=3
).map("/".join)


def described(data, media_type, **annotations):
    return Descriptor(media_type=media_type, digest=str(Digest.of(data)), size=len(data), annotations=annotations)


@st.composite
def layers(draw):
    files = draw(
        st.dictionaries(PATHS, st.tuples(st.binary(max_size=8), st.sampled_from(get_args(FileKind))), min_size=1)
    )
    return tuple(described(data, layer_type(kind), **{FILEPATH: path}) for path, (data, kind) in files.items())


def of_model(files, **config):
    configuration = ModelConfig.of({"name": "churn"}, {"format": "skops", **config}, files)
    data = configuration.to_json()
    return Manifest.of_model(described(data, MODEL_CONFIG_TYPE), files, {"vitrify.format": "skops"}), data


@given(layers())
def test_what_we_write_follows_the_specifications(files):
    manifest, config = of_model(files, precision="float32")
    jsonschema.validate(json.loads(manifest.to_json()), RULES["manifest"], jsonschema.Draft202012Validator)
    jsonschema.validate(json.loads(config), RULES["config"], jsonschema.Draft202012Validator)


@pytest.mark.parametrize("rule", list(RULES))
def test_the_rules_are_a_schema_that_refuses(rule):
    jsonschema.Draft202012Validator.check_schema(RULES[rule])
    for bad in ({}, {"schemaVersion": 2}, {"descriptor": {}, "config": {}, "modelfs": {"type": "x", "diffIds": []}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, RULES[rule], jsonschema.Draft202012Validator)


@given(files=layers(), data=st.data())
def test_the_order_in_which_files_were_written_does_not_matter(files, data):
    shuffled = tuple(data.draw(st.permutations(files)))
    first, second = of_model(files), of_model(shuffled)
    assert first[0].to_json() == second[0].to_json()
    assert first[1] == second[1]


@given(layers())
def test_the_diff_ids_are_the_layers_digests_in_their_order(files):
    manifest, config = of_model(files)
    assert json.loads(config)["modelfs"]["diffIds"] == [layer.digest for layer in manifest.layers]


@given(layers())
def test_a_manifest_read_and_written_is_the_same(files):
    manifest, _ = of_model(files)
    again = Manifest.from_json(manifest.to_json(), where="m")
    assert again == manifest
    assert again.to_json() == manifest.to_json()


def test_unknown_fields_survive_at_every_level():
    raw = json.loads(of_model((described(b"1", layer_type("weight"), **{FILEPATH: "w"}),))[0].to_json())
    raw["future"] = [1, {"a": None}]
    raw["config"]["urls"] = ["https://example.com"]
    raw["layers"][0]["platform"] = {"os": "linux"}
    assert json.loads(Manifest.from_json(json.dumps(raw).encode(), where="m").to_json()) == raw


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schemaVersion": 1}, "schemaVersion 1"),
        ({"mediaType": "application/vnd.docker.distribution.manifest.v2+json"}, "docker"),
        ({"layers": None}, "layers"),
        ({"config": {}}, "config"),
        ({"config": {"mediaType": "a", "digest": "sha256:0", "size": 1}}, "digest"),
        ({"config": {"mediaType": "a", "digest": f"sha256:{'0' * 64}", "size": -1}}, "negative"),
        ({"config": {"mediaType": "a", "digest": f"sha256:{'0' * 64}", "size": 1.5}}, "size"),
        ({"annotations": {"a": 1}}, "annotations"),
    ],
)
def test_what_is_no_manifest_is_an_error_that_says_why(change, message):
    raw = json.loads(of_model((described(b"1", layer_type("weight"), **{FILEPATH: "w"}),))[0].to_json())
    with pytest.raises(MalformedError, match=message) as caught:
        Manifest.from_json(json.dumps(raw | change).encode(), where="the manifest")
    assert "the manifest" in str(caught.value)


@pytest.mark.parametrize("paths", [("w", "w"), ("a/W", "a/w"), ("straße", "STRASSE")])
def test_two_files_of_one_path_on_any_system_are_refused(paths):
    files = [described(path.encode(), layer_type("weight"), **{FILEPATH: path}) for path in paths]
    raw = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": json.loads(described(b"{}", EMPTY_TYPE).to_json()),
        "layers": [json.loads(file.to_json()) for file in files],
    }
    with pytest.raises(MalformedError, match="same path"):
        Manifest.from_json(json.dumps(raw).encode(), where="m")


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/",
        "/a",
        "a/",
        "a//b",
        "./a",
        "a/.",
        "a/./b",
        "../a",
        "a/../b",
        "a/..",
        "a\\b",
        "C:a",
        "a\0b",
        "a\nb",
    ],
)
def test_a_path_that_does_not_stay_where_it_is_put_is_refused(path):
    with pytest.raises(MalformedError, match="path"):
        check_filepath(path)


@given(st.text(max_size=20))
def test_an_accepted_path_stays_below_its_directory(tmp_path, path):
    try:
        check_filepath(path)
    except MalformedError:
        return
    joined = (tmp_path / path).resolve(strict=False)
    assert joined != tmp_path
    assert joined.is_relative_to(tmp_path.resolve())


def test_files_are_found_by_path():
    manifest, _ = of_model((described(b"1", layer_type("weight"), **{FILEPATH: "model/w"}),))
    assert manifest.file("model/w").content == Digest.of(b"1")
    assert manifest.file("model/w").filepath == "model/w"
    assert list(manifest.files) == ["model/w"]
    assert manifest.referenced() == (manifest.config, *manifest.layers)
    with pytest.raises(ReferenceNotFoundError, match="model/w"):
        manifest.file("w")
