"""Encrypted artifacts: what needs no key works, what needs one is refused, and nothing decrypted touches a disk."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

import vitrify
from vitrify import stores
from vitrify.artifacts.encrypt import decrypt, encrypt
from vitrify.core.attestation import SLSA
from vitrify.core.document import DOCUMENT, Document
from vitrify.core.errors import (
    CorruptError,
    DeniedError,
    ForgedError,
    ReferenceNotFoundError,
    UnsupportedModelError,
    UsageError,
    VitrifyError,
)
from vitrify.core.manifest import Manifest
from vitrify.stores.files import read_document
from vitrify.transforms.matrix import matrix
from vitrify.trust import encryption as enc
from vitrify.trust import provenance

MLP = """
<ir_version: 9, opset_import: ["" : 19]>
mlp (float[batch,4] x) => (float[batch,2] y)
<float[4,3] W = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3,2] V = {1,-2,3,-4,5,-6}> {
    hidden = MatMul (x, W)
    active = Tanh (hidden)
    wide = MatMul (active, V)
    y = Softmax <axis = 1> (wide)
}
"""
LIMIT = 1 << 30
ROWS = {"x": np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)}


@pytest.fixture
def key(tmp_path):
    """Return a key, whose file is me.pem."""
    return enc.generate(tmp_path / "me.pem")


@pytest.fixture
def model(store):
    """Return a small model that is not encrypted."""
    return vitrify.save(parser.parse_model(MLP), "m", example=ROWS, description="a small one")


def to(key):
    return enc.X25519Recipient(key.private.public_key())


def altered(artifact, *, files=None, document=None, rename=None):
    """Return what an attacker makes of an artifact: the same but for some bytes, with a manifest that fits them."""
    store = artifact.store
    found = {path: read_document(store, layer.content, limit=LIMIT) for path, layer in artifact.manifest.files.items()}
    found |= files or {}
    if document is not None:
        found[DOCUMENT] = document.to_json()
    types = {path: layer.media_type for path, layer in artifact.manifest.files.items()}
    for old, new in (rename or {}).items():
        found[new], types[new] = found.pop(old), types.pop(old)
    config = read_document(store, artifact.manifest.config.content)

    def build(layers):
        typed = tuple(layer.replace(media_type=types.get(layer.filepath, "x/y")) for layer in layers)
        return Manifest.of_model(artifact.manifest.config, typed, {}), config

    with store.stage() as stage:
        for path, content in found.items():
            if content is not None:
                with stage.open(path, "weight") as stream:
                    stream.write(content)
        return str(stage.commit(build, None))


def layer(artifact, path):
    return read_document(artifact.store, artifact.manifest.files[path].content, limit=LIMIT)


def test_an_encrypted_artifact_predicts_for_its_recipient_as_its_source_does(model, key, tmp_path):
    encrypt("m", [to(key)])
    expected = vitrify.load("m").predict(ROWS)
    for identity in (key, tmp_path / "me.pem", str(tmp_path / "me.pem")):
        got = vitrify.load("m-encrypted", identity=identity).predict(ROWS)
        assert np.array_equal(got["y"], expected["y"])


def test_the_source_stays_and_what_was_done_is_recorded(model, key):
    result = encrypt(model, [to(key)])
    assert vitrify.open("m").digest == model.digest
    assert result.digest != model.digest
    assert result.document.lineage["source"] == str(model.digest)
    (built,) = [item.predicate for item in result.attestations if item.predicate_type == SLSA]
    assert provenance.read(built).source == str(model.digest)
    said = built["buildDefinition"]["externalParameters"]["encryption"]
    assert said["recipients"] == [str(result.sealed.envelope.recipients[0])]
    assert said["files"] == ["model.onnx"]


def test_encrypting_twice_gives_nothing_in_common(model, key):
    one, two = encrypt("m", [to(key)], name="one"), encrypt("m", [to(key)], name="two")
    assert layer(one, "model.onnx.encrypted") != layer(two, "model.onnx.encrypted")


def test_what_needs_no_key_works_without_one(model, key, tmp_path, store):
    encrypt("m", [to(key)])
    found = vitrify.open("m-encrypted")
    assert found.document.format == "onnx"
    assert found.signature == model.signature
    assert found.files.names() == model.files.names()
    assert all(
        name.endswith(".encrypted") == item.media_type.endswith("+encrypted")
        for name, item in found.manifest.files.items()
    )
    assert np.array_equal(found.golden()[1]["y"], model.golden()[1]["y"])
    stores.rehash(store, found.manifest)
    stores.export(store, found.digest, tmp_path / "m.tar")
    other = stores.OciLayout(tmp_path / "other")
    assert stores.import_(other, tmp_path / "m.tar") == found.digest
    report = vitrify.verify("m-encrypted")
    assert report.verdict == "not checked"
    assert report.details["bytes"] == found.size


@pytest.mark.external
def test_it_is_signed_pushed_and_pulled_without_a_key_and_opened_with_one(model, key, tmp_path, store, oci_registry):
    from vitrify.stores.oci_registry import pull, push
    from vitrify.trust.keys import PrivateKey
    from vitrify.trust.signing import sign, verify

    signer = PrivateKey.generate("ed25519")
    found = encrypt("m", [to(key)])
    sign(store, found.digest, signer)
    target = f"oci://{oci_registry.host}/team/encrypted:1"
    push(store, found.digest, target, plain_http=True)
    other = stores.OciLayout(tmp_path / "other")
    assert pull(other, target, name="m-encrypted:latest", plain_http=True) == found.digest
    assert verify(other, found.digest, [signer.public]).verdict == "clean"
    session = vitrify.load("m-encrypted", identity=key, store=other)
    assert np.array_equal(session.predict(ROWS)["y"], model.session().predict(ROWS)["y"])


def test_the_weights_cannot_be_found_in_the_store(model, key, store):
    secret = model.files.read("model.onnx")
    encrypt("m", [to(key)], everything=True)
    for digest in store.digests():
        if digest != model.manifest.files["model.onnx"].content:
            assert secret[100:200] not in store.blob(digest).read_bytes()


def test_everything_may_be_encrypted_but_the_document(model, key):
    found = encrypt("m", [to(key)], everything=True)
    plain = [path for path in found.manifest.files if not path.endswith(".encrypted")]
    assert plain == [DOCUMENT]
    with pytest.raises(DeniedError):
        found.golden()
    mine = vitrify.open("m-encrypted", identity=key)
    assert np.array_equal(mine.golden()[1]["y"], model.golden()[1]["y"])


def test_the_golden_samples_replay_for_whoever_has_the_key(model, key, tmp_path, monkeypatch):
    encrypt("m", [to(key)], everything=True)
    assert vitrify.verify("m-encrypted").verdict == "not checked"
    monkeypatch.setenv("VITRIFY_IDENTITY", str(tmp_path / "me.pem"))
    report = vitrify.verify("m-encrypted")
    assert report.verdict == "clean"
    assert report.details["bit_equal"]


def test_nobody_else_gets_a_byte(model, key, tmp_path):
    encrypt("m", [to(key)])
    for identity in (None, enc.generate(tmp_path / "you.pem"), enc.Passphrase("correct horse battery")):
        with pytest.raises(DeniedError, match="x25519:"):
            vitrify.load("m-encrypted", identity=identity)
        found = vitrify.open("m-encrypted", identity=identity)
        for read in (found.files.read, found.files.map, found.files.path):
            with pytest.raises(DeniedError):
                read("model.onnx")
        with pytest.raises(DeniedError):
            found.model()
    with pytest.raises(ReferenceNotFoundError):
        vitrify.open("m-encrypted", identity=key).files.read("none.onnx")


def test_a_passphrase_and_a_service_are_recipients_too(model):
    class Service:
        """A key management service: it wraps with a key that never leaves it."""

        def __init__(self):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._cipher, self.asked = AESGCM(os.urandom(32)), 0

        def wrap(self, key):
            self.asked += 1
            return enc.Stanza(
                kind="kms-test", key="alias/models", wrapped=self._cipher.encrypt(bytes(12), key, b"").hex()
            )

        def unwrap(self, stanza):
            self.asked += 1
            return (
                self._cipher.decrypt(bytes(12), bytes.fromhex(stanza.wrapped), b"")
                if stanza.kind == "kms-test"
                else None
            )

    service, words = Service(), enc.Passphrase("correct horse battery", work=4)
    found = encrypt("m", [words, service])
    assert [str(stanza) for stanza in found.sealed.envelope.recipients] == ["passphrase", "kms-test:alias/models"]
    for identity in (service, words):
        assert vitrify.load("m-encrypted", identity=identity).predict(ROWS)["y"].shape == (5, 2)
    assert service.asked >= 2


def test_decrypting_brings_back_the_very_same_artifact(model, key, tmp_path):
    """In a store that never had it: same bytes, same digest."""
    for everything in (False, True):
        found = encrypt("m", [to(key)], everything=everything, name=f"e{everything}".lower())
        other = stores.OciLayout(tmp_path / f"other-{everything}")
        stores.export(found.store, found.digest, tmp_path / f"{everything}.tar")
        stores.import_(other, tmp_path / f"{everything}.tar")
        back = decrypt(str(found.digest), identity=key, name="back", store=other)
        assert back.digest == model.digest
        assert back.document == model.document
        assert np.array_equal(back.session().predict(ROWS)["y"], model.session().predict(ROWS)["y"])
    with pytest.raises(UsageError, match="not encrypted"):
        decrypt("m", identity=key)
    with pytest.raises(DeniedError):
        decrypt("etrue")


def test_no_transform_makes_a_readable_copy(model, key, tmp_path, monkeypatch):
    encrypt("m", [to(key)])
    with pytest.raises(DeniedError, match="is encrypted"):
        vitrify.convert("m-encrypted", to="ort")
    monkeypatch.setenv("VITRIFY_IDENTITY", str(tmp_path / "me.pem"))
    with pytest.raises(DeniedError, match="unencrypted"):
        vitrify.convert("m-encrypted", to="ort")
    with pytest.raises(DeniedError, match="unencrypted"):
        matrix("m-encrypted")


def test_a_key_in_the_environment_lets_nothing_copy_the_files_in_the_clear(model, key, tmp_path, monkeypatch):
    from vitrify import package
    from vitrify.checks.scan import scan_artifact

    encrypt("m", [to(key)], everything=True)
    monkeypatch.setenv("VITRIFY_IDENTITY", str(tmp_path / "me.pem"))
    secret = model.files.read("model.onnx")[60:200]
    for layout in ("directory", "mlflow", "kitops", "hugging-face"):
        with suppress(DeniedError, UsageError):  # or it writes the files as they are, encrypted
            package.export(vitrify.open("m-encrypted"), tmp_path / layout, layout)
        written = [path for path in (tmp_path / layout).rglob("*") if path.is_file()]
        assert not [path for path in written if secret in path.read_bytes()]
    with pytest.raises(DeniedError, match="only to load it"):
        vitrify.open("m-encrypted").files.map("model.onnx")
    assert vitrify.load("m-encrypted").predict(ROWS)["y"].shape == (5, 2)
    assert scan_artifact(vitrify.open("m-encrypted")).verdict == "clean"
    monkeypatch.delenv("VITRIFY_IDENTITY")
    with pytest.raises(DeniedError):
        scan_artifact(vitrify.open("m-encrypted"))


def test_what_cannot_be_encrypted_is_refused(model, key, store, tmp_path):
    with pytest.raises(UsageError, match="no recipient"):
        encrypt("m", [])
    encrypt("m", [to(key)])
    with pytest.raises(UsageError, match="encrypted already"):
        encrypt("m-encrypted", [to(key)])
    foreign = altered(model, files={"model.onnx.encrypted": b"x"})
    with pytest.raises(UnsupportedModelError, match=r"called model\.onnx\.encrypted"):
        encrypt(foreign, [to(key)])
    assert sorted(store.names.all()) == ["m-encrypted:latest", "m:latest"]


def test_a_library_that_may_write_to_a_disk_does_not_get_it(model, key):
    found = encrypt("m", [to(key)])
    tensorflow = found.document.replace(format="saved-model", runtime="tensorflow")
    with pytest.raises(DeniedError, match="write the model to a disk"):
        vitrify.open(altered(found, document=tensorflow), identity=key).session()


def test_large_files_are_decrypted_together_and_each_is_checked(store, key, monkeypatch):
    from vitrify.formats._safetensors import write

    monkeypatch.setattr(write, "SHARD", 5 * 1024 * 1024)
    random = np.random.default_rng(0)
    weights = {f"layer{number}": random.normal(size=1_200_000).astype(np.float32) for number in range(3)}
    vitrify.save(weights, "w")
    found = vitrify.open(str(encrypt("w", [to(key)]).digest), identity=key)
    shards = [name for name in found.files.names() if name.endswith(".safetensors")]
    assert len(shards) == 3
    assert all(np.array_equal(found.model()[name], array) for name, array in weights.items())
    sealed = [name + ".encrypted" for name in shards]
    swapped = altered(found, files={sealed[0]: layer(found, sealed[1]), sealed[1]: layer(found, sealed[0])})
    with pytest.raises(ForgedError):
        vitrify.open(swapped, identity=key).files.map(shards[2])


# Forgeries: each has a manifest that fits its bytes, so that only the encryption itself can find out.


def refused(reference, key, match):
    found = vitrify.open(reference, identity=key)
    with pytest.raises(ForgedError, match=match):
        found.session()
    with pytest.raises(ForgedError):
        decrypt(reference, identity=key)


def test_a_changed_a_cut_and_an_exchanged_file_are_found(model, key):
    one, two = encrypt("m", [to(key)], name="one"), encrypt("m", [to(key)], name="two")
    content = layer(one, "model.onnx.encrypted")
    changed = bytes([content[0] ^ 1]) + content[1:]
    refused(altered(one, files={"model.onnx.encrypted": changed}), key, "chunk 1 of 1")
    refused(altered(one, files={"model.onnx.encrypted": content[:-1]}), key, "encrypted bytes")
    refused(altered(one, files={"model.onnx.encrypted": content + b"\0"}), key, "encrypted bytes")
    other = layer(two, "model.onnx.encrypted")
    refused(altered(one, files={"model.onnx.encrypted": other}), key, "chunk 1 of 1")
    refused(altered(one, files={"model.onnx.encrypted": None}), key, r"has no model\.onnx\.encrypted")
    source = layer(two, "vitrify-source.json.encrypted")
    refused(altered(one, files={"vitrify-source.json.encrypted": source}), key, "chunk")


def test_two_files_that_changed_places_are_found(store, key):
    weights = {"a": np.zeros(300, np.float32), "b": np.ones(300, np.float32)}
    vitrify.save(weights, "w")
    found = encrypt("w", [to(key)], everything=True)
    names = [path for path in found.manifest.files if path.endswith(".encrypted")]
    assert len(names) >= 2
    first, second = layer(found, names[0]), layer(found, names[1])
    swapped = altered(found, files={names[0]: second, names[1]: first})
    with pytest.raises(ForgedError):
        vitrify.open(swapped, identity=key).model()
    moved = altered(found, rename={"model.safetensors.encrypted": "other.safetensors.encrypted"})
    with pytest.raises(ForgedError, match=r"has no model\.safetensors"):
        vitrify.open(moved, identity=key).model()


def test_a_changed_envelope_and_a_replaced_key_are_found(model, key, tmp_path):
    found = encrypt("m", [to(key)])
    envelope = found.sealed.envelope

    def with_envelope(**changes):
        from vitrify.core.wire import to_builtins

        return found.document.replace(encryption=to_builtins(envelope.replace(**changes)))

    other = to(key).wrap(os.urandom(32))
    refused(altered(found, document=with_envelope(recipients=(other,))), key, "envelope")
    added = (*envelope.recipients, to(enc.generate(tmp_path / "you.pem")).wrap(os.urandom(32)))
    refused(altered(found, document=with_envelope(recipients=added)), key, "envelope")
    refused(altered(found, document=with_envelope(files={**envelope.files, "model.onnx": 1})), key, "envelope")
    gone = altered(found, document=with_envelope(recipients=(other.replace(key="0" * 16),)))
    with pytest.raises(DeniedError):
        vitrify.open(gone, identity=key).session()


def test_what_lies_beside_the_ciphertext_cannot_be_changed_either(model, key):
    found = encrypt("m", [to(key)])
    elsewhere = {**found.document.entry, "file": "golden.npz"}
    refused(altered(found, document=found.document.replace(entry=elsewhere)), key, r"vitrify\.json")
    refused(altered(found, document=found.document.replace(notes=("trust me",))), key, r"vitrify\.json")
    other = found.document.lineage | {"plan": {"source": "skops", "target": "onnx"}}
    refused(altered(found, document=found.document.replace(lineage=other)), key, "its lineage")
    lineage = {**found.document.lineage, "source": "sha256:" + "0" * 64}
    refused(altered(found, document=found.document.replace(lineage=lineage)), key, "its lineage")
    refused(altered(found, files={"golden.npz": b"other"}), key, r"golden\.npz")
    refused(altered(found, files={"more.bin": b"other"}), key, "list of its files")
    refused(altered(found, files={"golden.npz": None}), key, "list of its files")


def test_no_change_of_the_document_is_anything_but_an_error_of_ours(model, key):
    """Whatever byte of it is another, the model is refused, or the bytes said the same."""
    found = encrypt("m", [to(key)])
    text = found.files.read(DOCUMENT)
    expected = found.document

    @given(st.integers(0, len(text) - 1), st.integers(0, 255), st.booleans())
    @settings(max_examples=40)
    def change(place, byte, cut):
        changed = text[:place] + (b"" if cut else bytes([byte])) + text[place + 1 :]
        try:
            opened = vitrify.open(altered(found, files={DOCUMENT: changed}), identity=key)
            opened.session().close()
        except VitrifyError:
            return
        assert opened.document == expected

    change()


def test_a_byte_that_rots_on_the_disk_is_damage_and_needs_no_key_to_be_found(model, key, store):
    found = encrypt("m", [to(key)])
    blob = store.blob(found.manifest.files["model.onnx.encrypted"].content)
    content = bytearray(blob.read_bytes())
    content[5] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(content)
    with pytest.raises(CorruptError):
        vitrify.open("m-encrypted")


def test_the_document_of_a_plain_artifact_says_nothing_of_encryption(model):
    assert b"encryption" not in model.files.read(DOCUMENT)
    assert isinstance(model.document, Document)
    assert model.sealed is None


# Nothing touches a disk.

OPENING = """
    import os, resource, signal, sys
    import numpy as np
    import vitrify
    found = vitrify.open("enc", identity="me.pem")
    for name in found.files.names():
        found.files.map(name)  # memory files are files to the kernel: they are filled before the limit is set
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        os.write(os.open("proof", os.O_CREAT | os.O_WRONLY), b"x")
    except OSError:
        pass
    else:
        sys.exit("the limit does not hold")
    inputs, outputs = found.golden()
    if outputs:
        got = found.session().run(inputs)
        assert all(np.array_equal(got[name], array) for name, array in outputs.items())
    else:
        assert found.model()["a"].sum() == 300
    print("predicted")
"""


def made(kind):
    if kind == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBRegressor(n_estimators=2).fit(ROWS["x"], [0, 1, 0, 1, 0]), ROWS["x"]
    if kind == "safetensors":
        return {"a": np.ones(300, np.float32)}, None
    return parser.parse_model(MLP), ROWS


@pytest.mark.parametrize("kind", ["onnx", "xgboost", "safetensors"])
def test_the_kernel_lets_this_process_write_nothing_and_it_predicts_all_the_same(kind, key, tmp_path, store):
    native, example = made(kind)
    source = vitrify.save(native, "m", example=example)
    assert source.document.format == kind
    encrypt("m", [to(key)], name="enc", everything=True)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(OPENING)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "predicted", done.stderr
