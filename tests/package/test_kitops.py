"""ModelKits and ModelPack artifacts: written reproducibly, read without believing a byte."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vitrify import package, stores
from vitrify.core.errors import (
    CorruptError,
    LimitExceededError,
    MalformedError,
    UnsupportedModelError,
    UntrustedCodeError,
    UsageError,
    VitrifyError,
)
from vitrify.package import kitops
from vitrify.package._origin import origin

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
KIT, PACK = "application/vnd.kitops.modelkit", "application/vnd.cncf.model"


def relu():
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


RELU = relu()


def tar(members, *, packed="", edit=None):
    """Return a tar of names and bytes; None is a folder, a tarfile header with its bytes stands as it is."""
    stream = io.BytesIO()
    with tarfile.TarFile(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in members:
            header = tarfile.TarInfo(name)
            if data is None:
                header.type, header.mode = tarfile.DIRTYPE, 0o755
            else:
                header.size = len(data)
            if edit:
                edit(header)
            archive.addfile(header, io.BytesIO(data or b""))
    data = stream.getvalue()
    if packed == "zstd":
        return pytest.importorskip("zstandard").compress(data)
    return gzip.compress(data, mtime=0) if packed == "gzip" else data


@pytest.fixture
def make(tmp_path):
    """Return a function that writes an OCI layout of one artifact, as another tool would."""

    def one(layers, config, *, kind=KIT, name="theirs"):
        folder = tmp_path / name
        (folder / "blobs" / "sha256").mkdir(parents=True)

        def blob(data, media_type, **annotations):
            code = hashlib.sha256(data).hexdigest()
            (folder / "blobs" / "sha256" / code).write_bytes(data)
            found = {"mediaType": media_type, "digest": f"sha256:{code}", "size": len(data)}
            return {**found, "annotations": annotations} if annotations else found

        described = [
            blob(data, media_type, **({"org.cncf.model.filepath": path} if path else {}))
            for media_type, path, data in layers
        ]
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blob(json.dumps(config).encode(), f"{kind}.config.v1+json"),
            "layers": described,
        }
        if kind == PACK:
            manifest["artifactType"] = f"{PACK}.manifest.v1+json"
        index = {"schemaVersion": 2, "manifests": [blob(json.dumps(manifest).encode(), MANIFEST)]}
        (folder / "index.json").write_text(json.dumps(index))
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        return folder

    return one


def kit(**changes):
    return {
        "manifestVersion": "1.0.0",
        "package": {"name": "churn", "description": "Who leaves", "license": "MIT"},
        "model": {"name": "relu", "path": "./model/relu.onnx"},
        **changes,
    }


@pytest.fixture
def exported(churn, tmp_path):
    package.export(churn, tmp_path / "kit", "kitops")
    return tmp_path / "kit"


def _documents(folder):
    index = json.loads((folder / "index.json").read_bytes())

    def blob(one):
        return (folder / "blobs" / one["digest"].replace(":", "/")).read_bytes()

    manifest = json.loads(blob(index["manifests"][0]))
    return manifest, json.loads(blob(manifest["config"])), blob


def test_a_kit_holds_a_tar_a_file_and_a_kitfile_with_their_digests(churn, exported):
    manifest, config, blob = _documents(exported)
    assert manifest["config"]["mediaType"] == kitops.CONFIG
    assert manifest["artifactType"] == kitops.MANIFEST
    assert [one["mediaType"].removeprefix(KIT) for one in manifest["layers"][:3]] == [
        *(".model.v1.tar", ".modelpart.v1.tar", ".dataset.v1.tar")
    ]
    assert config["package"] == {"name": "churn", "version": "1.2.0", "description": "Who *leaves* | soon"}
    assert config["model"]["path"] == "model.skops"
    assert config["model"]["digest"] == manifest["layers"][0]["digest"] == config["model"]["diffId"]
    assert config["model"]["parameters"]["vitrify"]["digest"] == str(churn.digest)
    with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as archive:
        (member,) = archive.getmembers()
        assert (member.name, member.mtime, member.uid, member.uname) == ("model.skops", 0, 0, "")
        assert archive.extractfile(member).read() == churn.files.read("model.skops")


def test_folders_stand_before_the_files_in_them(exported):
    manifest, _, blob = _documents(exported)
    inner = next(one for one in manifest["layers"] if one["annotations"]["org.cncf.model.filepath"].startswith("."))
    with tarfile.open(fileobj=io.BytesIO(blob(inner))) as archive:
        assert next((one.name, one.isdir()) for one in archive) == (".modelpack", True)


def test_the_same_artifact_gives_the_same_kit(churn, exported, tmp_path, tree):
    package.export(churn, tmp_path / "again", "kitops")
    assert tree(exported) == tree(tmp_path / "again")


def test_a_kit_of_ours_gives_the_same_digest_back(churn, exported, store):
    assert package.import_(exported, "back").digest == churn.digest
    assert store.names.get("back:latest").content == churn.digest


def test_an_archive_of_a_kit_is_a_kit(churn, exported, tmp_path):
    with tarfile.open(tmp_path / "kit.tar", "w") as archive:
        for path in sorted(exported.rglob("*")):
            archive.add(path, str(path.relative_to(exported)), recursive=False)
    assert package.import_(tmp_path / "kit.tar", "back").digest == churn.digest


@pytest.mark.external
def test_skopeo_copies_a_kit_with_its_digest(exported, tmp_path):
    if subprocess.run(["which", "skopeo"], capture_output=True, check=False).returncode:
        pytest.skip("skopeo is not installed")
    command = ["skopeo", "copy", "--quiet", f"oci:{exported}:1.2.0", f"oci:{tmp_path}/copy:x"]
    subprocess.run(command, check=True, capture_output=True)
    digests = [
        json.loads((one / "index.json").read_bytes())["manifests"][0]["digest"] for one in (exported, tmp_path / "copy")
    ]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("packed", ["", "gzip", "zstd"])
def test_a_kit_of_another_tool_is_packed(make, packed):
    model = tar([("model", None), ("model/relu.onnx", RELU)], packed=packed)
    docs = tar([("README.md", b"# Relu")], packed=packed)
    end = f"tar+{packed}" if packed else "tar"
    config = kit(docs=[{"path": "README.md", "digest": "sha256:1"}])
    folder = make([(f"{KIT}.model.v1.{end}", "", model), (f"{KIT}.docs.v1.{end}", "", docs)], config)
    artifact = package.import_(folder, "theirs")
    assert artifact.document.format == "onnx"
    assert artifact.files.read("model.onnx") == RELU
    assert (artifact.session().predict(np.float32([[-1, 2, 3]]))["y"] == [[0, 2, 3]]).all()
    assert origin(artifact)["layout"] == "kitops"
    assert origin(artifact)["config"]["package"]["license"] == "MIT"


def test_a_kit_of_an_older_tool_has_names_below_the_path_of_its_kitfile(make):
    folder = make([(f"{KIT}.model.v1.tar+gzip", "", tar([("relu.onnx", RELU)], packed="gzip"))], kit())
    assert package.import_(folder, "theirs").document.format == "onnx"


@pytest.mark.parametrize("form", ["raw", "tar", "tar+gzip", "tar+zstd"])
def test_a_modelpack_artifact_of_another_tool_is_packed(make, form):
    data = RELU if form == "raw" else tar([("relu.onnx", RELU)], packed=form.partition("+")[2])
    config = {"descriptor": {"name": "relu", "description": "Cuts"}, "config": {"format": "onnx"}, "modelfs": {}}
    layers = [(f"{PACK}.weight.v1.{form}", "relu.onnx", data), (f"{PACK}.doc.v1.raw", "README.md", b"# x")]
    artifact = package.import_(make(layers, config, kind=PACK), "theirs")
    assert artifact.files.read("model.onnx") == RELU
    assert origin(artifact)["layout"] == "modelpack"
    config = json.loads(stores.files.read_document(artifact.store, artifact.manifest.config.content))
    assert config["descriptor"] == {"description": "Cuts"}


def test_a_directory_that_kit_unpacked_is_packed(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "relu.onnx").write_bytes(RELU)
    (tmp_path / "Kitfile").write_text("manifestVersion: 1.0.0\nmodel:\n  path: ./model/relu.onnx\n")
    assert package.import_(tmp_path, "theirs").document.format == "onnx"


def _to_link(header):
    header.type, header.linkname, header.size = tarfile.SYMTYPE, "/etc/passwd", 0


def _to_inner_link(header):
    if header.name == "other":
        header.type, header.linkname, header.size = tarfile.SYMTYPE, "relu.onnx", 0


def _to_device(header):
    header.type, header.devmajor, header.size = tarfile.CHRTYPE, 1, 0


def _to_pipe(header):
    header.type, header.size = tarfile.FIFOTYPE, 0


@pytest.mark.parametrize(
    ("members", "edit"),
    [
        ([("../evil", b"x")], None),
        ([("/etc/evil", b"x")], None),
        ([("a\\b", b"x")], None),
        ([("relu.onnx", RELU), ("relu.onnx", b"x")], None),
        ([("relu.onnx", RELU), ("RELU.onnx", b"x")], None),
        ([("relu.onnx", RELU), ("relu.onnx/x", b"x")], None),
        ([("evil", b"")], _to_link),
        ([("relu.onnx", RELU), ("other", b"")], _to_inner_link),
        ([("evil", b"")], _to_device),
        ([("evil", b"")], _to_pipe),
    ],
)
def test_a_layer_that_would_do_harm_when_unpacked_is_refused(make, store, members, edit):
    folder = make([(f"{KIT}.model.v1.tar", "", tar(members, edit=edit))], kit())
    with pytest.raises(MalformedError):
        package.import_(folder, "theirs")
    assert not list(store.digests())


def test_two_layers_with_one_path_are_refused(make):
    layers = [(f"{PACK}.weight.v1.raw", "relu.onnx", RELU), (f"{PACK}.doc.v1.raw", "Relu.onnx", b"x")]
    with pytest.raises(MalformedError, match="two files"):
        package.import_(make(layers, {}, kind=PACK), "theirs")


@pytest.mark.parametrize("path", ["../x", "/x", "", "a/../../b"])
def test_a_raw_layer_stays_inside(make, path):
    with pytest.raises(MalformedError):
        package.import_(make([(f"{PACK}.weight.v1.raw", path, RELU)], {}, kind=PACK), "theirs")


@pytest.mark.parametrize("path", ["../../model.onnx", "/abs/model.onnx"])
def test_a_kitfile_of_an_older_tool_stays_inside(make, path):
    layers = [(f"{KIT}.model.v1.tar", "", tar([("relu.onnx", RELU)]))]
    with pytest.raises(MalformedError):
        package.import_(make(layers, kit(model={"path": path})), "theirs")


def test_a_bomb_is_stopped(make):
    bomb = gzip.compress(bytes(300 * 1024 * 1024), 9, mtime=0)
    with pytest.raises((LimitExceededError, MalformedError)):
        package.import_(make([(f"{KIT}.model.v1.tar+gzip", "", bomb)], kit()), "theirs")


@pytest.mark.parametrize("form", ["tar+lzma", "squashfs", "raw+gzip", ""])
def test_a_layer_of_an_unknown_kind_is_refused(make, form):
    with pytest.raises(MalformedError, match="none of ModelPack"):
        package.import_(make([(f"{KIT}.model.v1.{form}", "x", RELU)], kit()), "theirs")


def test_a_blob_that_was_changed_is_found(make, store):
    folder = make([(f"{PACK}.weight.v1.raw", "relu.onnx", RELU)], {}, kind=PACK)
    place = folder / "blobs" / "sha256" / hashlib.sha256(RELU).hexdigest()
    place.write_bytes(RELU[:-1] + b"x")
    with pytest.raises(CorruptError, match="not what its digest"):
        package.import_(folder, "theirs")
    place.unlink()
    with pytest.raises(CorruptError, match="missing"):
        package.import_(folder, "theirs")
    assert not list(store.digests())


def test_code_in_a_kit_does_not_run_and_has_to_be_allowed(make, tmp_path):
    evil = b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    folder = make([(f"{KIT}.model.v1.tar", "", tar([("model/relu.onnx", evil)]))], kit(docs=[{"digest": "x"}]))
    with pytest.raises(UntrustedCodeError) as caught:
        package.import_(folder, "theirs")
    assert caught.value.names == ("os.system",)
    assert not (tmp_path / "ran").exists()


def test_several_models_or_none_are_said(make, tmp_path):
    layers = [(f"{PACK}.weight.v1.raw", "a.onnx", RELU), (f"{PACK}.weight.v1.raw", "b.onnx", RELU + b"")]
    with pytest.raises(UnsupportedModelError, match="2 models"):
        package.import_(make(layers, {}, kind=PACK), "theirs")
    empty = make([(f"{PACK}.doc.v1.raw", "README.md", b"# x")], {}, kind=PACK, name="none")
    with pytest.raises(UnsupportedModelError):
        package.import_(empty, "theirs")


def test_what_is_no_layout_is_said(tmp_path):
    (tmp_path / "x.bin").write_bytes(b"nothing")
    with pytest.raises(VitrifyError):
        package.import_(tmp_path / "x.bin")
    with pytest.raises(UsageError, match="neither"):
        kitops.import_(tmp_path / "x.bin")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no OCI layout"):
        kitops.import_(tmp_path / "empty")
    with pytest.raises(UsageError, match="there is no"):
        package.import_(tmp_path / "absent")


def test_our_own_artifacts_have_no_other_keys_than_modelpack_knows(churn):
    """As its ``schema/config-schema.json`` has it, which allows no others."""
    config = json.loads(stores.files.read_document(churn.store, churn.manifest.config.content))
    assert config.keys() == {"descriptor", "config", "modelfs"}
    assert config["descriptor"].keys() <= {
        "createdAt",
        "authors",
        "name",
        "version",
        "licenses",
        "title",
        "description",
    }
    assert config["config"].keys() <= {
        "architecture",
        "format",
        "paramSize",
        "precision",
        "quantization",
        "capabilities",
    }
    assert config["modelfs"]["type"] == "layers"
    assert config["modelfs"]["diffIds"] == [layer.digest for layer in churn.manifest.layers]


def test_a_graph_of_the_tests_is_valid():
    onnx.checker.check_model(onnx.load_from_string(RELU))
