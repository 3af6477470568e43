"""A directory's signature: ours is read by the OpenSSF tool and theirs by us, and neither takes what was not signed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify import stores
from vitrify.artifacts.artifact import Artifact
from vitrify.core.errors import MalformedError, ReferenceNotFoundError, StoreError, UsageError
from vitrify.core.strict import strict_json
from vitrify.package import directory
from vitrify.testing.stores import save
from vitrify.trust import dsse
from vitrify.trust._bundle import Bundle, Resource, hint, read_signed, root_digest, statement
from vitrify.trust._signed_files import DOCUMENTS
from vitrify.trust.keys import PrivateKey
from vitrify.trust.model_signing import sign_artifact, sign_directory, verify_artifact, verify_directory

tool = pytest.importorskip("model_signing")

KEY = PrivateKey.generate("ecdsa-p256")
OTHER = PrivateKey.generate("ecdsa-p256")
GIT = (".git", ".gitattributes", ".github", ".gitignore")


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "tokenizer").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(bytes(range(256)) * 500)
    (folder / "empty").write_bytes(b"")
    (folder / "tokenizer" / "vocab.json").write_text("{}")
    (folder / "tokenizer.json").write_text("sorts before tokenizer/ as text, and behind it by its parts")
    (folder / "tokenizer-ü.json").write_text("ü")
    return folder


@pytest.fixture
def signature(tmp_path):
    return tmp_path / "model.sig"


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    KEY.save(folder / "key.pem", unencrypted=True)
    (folder / "key.pub").write_bytes(KEY.public.pem)
    return folder


@pytest.fixture
def they(keys):
    """Return the OpenSSF tool: a function that signs, and one that raises where it does not verify."""

    class They:
        @staticmethod
        def sign(folder, signature, **hashing):
            config = tool.signing.Config().use_elliptic_key_signer(private_key=keys / "key.pem")
            if hashing:
                config.set_hashing_config(tool.hashing.Config().set_ignored_paths(**hashing))
            config.sign(folder, signature)

        @staticmethod
        def verify(folder, signature):
            config = tool.verifying.Config().use_elliptic_key_verifier(public_key=keys / "key.pub")
            config.verify(folder, signature)

    return They


def rules(report):
    return [(finding.rule, finding.place) for finding in report.findings]


def forge(signature, change, *, signer=KEY, raw=None):
    """Write a signature file again whose statement was changed, signed by whoever signs."""
    bundle = json.loads(signature.read_text())
    payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    change(payload)
    data = raw(payload) if raw else json.dumps(payload).encode()
    envelope = dsse.sign(data, "application/vnd.in-toto+json", [signer])
    signature.write_bytes(Bundle.of(envelope, signer.public).to_json())


def edit(signature, change):
    """Change a signature file and sign nothing."""
    bundle = json.loads(signature.read_text())
    change(bundle)
    signature.write_text(json.dumps(bundle))


# Both ways


def test_the_openssf_tool_verifies_what_we_signed(model, signature, they):
    sign_directory(model, KEY, signature)
    they.verify(model, signature)
    report = verify_directory(model, signature, KEY.public)
    assert report.passed
    assert report.details == {"signers": [KEY.keyid], "files": 5, "unsigned": []}


def test_we_verify_what_the_openssf_tool_signed(model, signature, they):
    they.sign(model, signature)
    report = verify_directory(model, signature, KEY.public)
    assert report.passed
    assert report.details["signers"] == [KEY.keyid]


def test_both_tools_sign_the_same_statement(model, tmp_path, they):
    they.sign(model, tmp_path / "theirs")
    sign_directory(model, KEY, tmp_path / "ours")
    statements = []
    for name in ("theirs", "ours"):
        bundle = json.loads((tmp_path / name).read_text())
        assert bundle["verificationMaterial"] == {"publicKey": {"hint": hint(KEY.public)}, "tlogEntries": []}
        said = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        said["predicate"]["serialization"]["ignore_paths"].sort()
        statements.append(said)
    assert statements[0] == statements[1]


def test_a_signature_inside_the_directory_does_not_sign_itself(model, they):
    inside = model / "model.sig"
    sign_directory(model, KEY, inside)
    sign_directory(model, KEY, inside)  # again, in its own place
    they.verify(model, inside)
    assert verify_directory(model, inside, KEY.public).passed
    they.sign(model, inside, paths=["model.sig"])  # as its command does
    assert verify_directory(model, inside, KEY.public).passed


@pytest.mark.external
def test_a_session_of_the_openssf_command_passes_unmodified(model, keys):
    def command(*arguments):
        parts = [sys.executable, "-m", "model_signing", *arguments]
        return subprocess.run(parts, cwd=model.parent, capture_output=True, text=True, check=False).returncode

    sign_directory(model, KEY, model.parent / "model.sig")
    verify = ("verify", "key", "model", "--signature", "model.sig", "--public_key", str(keys / "key.pub"))
    assert command(*verify) == 0
    assert command("sign", "key", "model", "--signature", "model.sig", "--private_key", str(keys / "key.pem")) == 0
    assert verify_directory(model, model.parent / "model.sig", KEY.public).passed
    (model / "extra").write_text("x")
    assert command(*verify) == 1
    assert not verify_directory(model, model.parent / "model.sig", KEY.public).passed


def test_what_git_keeps_is_not_signed_and_told(model, signature, they):
    (model / ".git" / "objects").mkdir(parents=True)
    (model / ".git" / "objects" / "pack").write_text("x")
    (model / ".gitattributes").write_text("x")
    for sign in (lambda: sign_directory(model, KEY, signature), lambda: they.sign(model, signature)):
        sign()
        they.verify(model, signature)
        report = verify_directory(model, signature, [KEY.public])
        assert report.passed
        assert report.details["unsigned"] == [".git", ".gitattributes"]


def test_what_git_keeps_and_somebody_signed_is_verified(model, signature, they):
    (model / ".gitattributes").write_text("x")
    they.sign(model, signature, paths=[], ignore_git_paths=False)
    assert verify_directory(model, signature, KEY.public).passed
    (model / ".gitattributes").write_text("y")
    assert rules(verify_directory(model, signature, KEY.public)) == [("changed-file", ".gitattributes")]


def test_an_empty_folder_makes_no_difference(model, signature, they):
    sign_directory(model, KEY, signature)
    (model / "cache").mkdir()
    they.verify(model, signature)
    assert verify_directory(model, signature, KEY.public).passed


# What is in the directory is not what was signed: both tools refuse


def change(model):
    (model / "weights.bin").write_bytes(b"other")


def fill(model):
    (model / "empty").write_bytes(b"x")


def add(model):
    (model / "tokenizer" / "extra.py").write_text("import os")


def take(model):
    (model / "empty").unlink()


def rename(model):
    (model / "weights.bin").rename(model / "Weights.bin")


def swap(model):
    (model / "weights.bin").rename(model / "kept")
    (model / "tokenizer.json").rename(model / "weights.bin")
    (model / "kept").rename(model / "tokenizer.json")


def link(model):
    (model / "weights.bin").rename(model.parent / "weights.bin")
    (model / "weights.bin").symlink_to(model.parent / "weights.bin")


def link_folder(model):
    (model / "tokenizer").rename(model.parent / "tokenizer")
    (model / "tokenizer").symlink_to(model.parent / "tokenizer")


def pipe(model):
    os.mkfifo(model / "pipe")


@pytest.mark.parametrize(
    "damaged",
    [
        (change, [("changed-file", "weights.bin")]),
        (fill, [("changed-file", "empty")]),
        (add, [("extra-file", "tokenizer/extra.py")]),
        (take, [("missing-file", "empty")]),
        (rename, [("extra-file", "Weights.bin"), ("missing-file", "weights.bin")]),
        (swap, [("changed-file", "tokenizer.json"), ("changed-file", "weights.bin")]),
        (link, [("odd-file", "weights.bin"), ("missing-file", "weights.bin")]),
        (link_folder, [("odd-file", "tokenizer"), ("missing-file", "tokenizer/vocab.json")]),
        (pipe, [("odd-file", "pipe")]),
    ],
)
@pytest.mark.parametrize("signed_by", ["us", "them"])
def test_a_directory_that_is_not_what_was_signed_is_refused_by_both(model, signature, they, damaged, signed_by):
    damage, expected = damaged
    sign_directory(model, KEY, signature) if signed_by == "us" else they.sign(model, signature)
    damage(model)
    assert rules(verify_directory(model, signature, KEY.public)) == expected
    with pytest.raises(ValueError, match=r"mismatch|symlink|Cannot use"):
        they.verify(model, signature)


# The signature is forged: both tools refuse


def reorder(payload):
    payload["predicate"]["resources"].reverse()


def replace_digest(payload):
    payload["predicate"]["resources"][0]["digest"] = "00" * 32


def test_the_signature_of_another_key_is_refused_by_both(model, signature, they):
    sign_directory(model, OTHER, signature)
    report = verify_directory(model, signature, KEY.public)
    assert rules(report) == [("forged-signature", str(signature))]
    assert "names another key" in report.findings[0].message
    with pytest.raises(ValueError, match="Key mismatch"):
        they.verify(model, signature)


def test_another_key_that_says_it_is_ours_is_refused_by_both(model, signature, they):
    sign_directory(model, OTHER, signature)
    edit(signature, lambda bundle: bundle["verificationMaterial"]["publicKey"].update(hint=hint(KEY.public)))
    report = verify_directory(model, signature, KEY.public)
    assert rules(report) == [("forged-signature", str(signature))]
    assert "does not hold" in report.findings[0].message
    with pytest.raises(Exception):  # noqa: B017, PT011 (the tool lets its library's InvalidSignature through)
        they.verify(model, signature)


@pytest.mark.parametrize("lie", [reorder, replace_digest])
def test_a_statement_that_was_changed_after_signing_is_refused_by_both(model, signature, they, lie):
    sign_directory(model, KEY, signature)

    def change(bundle):
        payload = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        lie(payload)
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()

    edit(signature, change)
    assert rules(verify_directory(model, signature, KEY.public)) == [("forged-signature", str(signature))]
    with pytest.raises(Exception):  # noqa: B017, PT011 (the tool lets its library's InvalidSignature through)
        they.verify(model, signature)


def test_one_of_several_keys_is_enough(model, signature):
    sign_directory(model, KEY, signature)
    assert verify_directory(model, signature, [OTHER.public, KEY.public]).details["signers"] == [KEY.keyid]


def test_a_file_that_names_no_key_is_verified_with_those_given(model, signature):
    sign_directory(model, KEY, signature)
    edit(signature, lambda bundle: bundle["verificationMaterial"].update(publicKey={}))
    assert verify_directory(model, signature, [OTHER.public, KEY.public]).passed
    assert not verify_directory(model, signature, [OTHER.public]).passed


# The signer signed what can be read in two ways, or what this version does not read


def subject_twice(payload):
    payload["subject"] *= 2


def wrong_root(payload):
    payload["subject"][0]["digest"]["sha256"] = "00" * 32


def twice(payload):
    payload["predicate"]["resources"].append(payload["predicate"]["resources"][0])
    again(payload)


def again(payload):
    resources = [Resource(**resource) for resource in payload["predicate"]["resources"]]
    payload["subject"][0]["digest"]["sha256"] = root_digest(resources)


def nothing(payload):
    payload["predicate"]["resources"] = []
    again(payload)


def climb(payload):
    payload["predicate"]["resources"][0]["name"] = "../weights.bin"


def absolute(payload):
    payload["predicate"]["resources"][0]["name"] = "/etc/passwd"


def backslash(payload):
    payload["predicate"]["resources"][0]["name"] = "a\\b"


def both(payload):
    payload["predicate"]["serialization"]["ignore_paths"] = ["./tokenizer/"]


def all_ignored(payload):
    payload["predicate"]["serialization"]["ignore_paths"] = ["."]


def shards(payload):
    payload["predicate"]["serialization"] = {
        "method": "shards",
        "hash_type": "sha256",
        "shard_size": 10,
        "allow_symlinks": False,
    }


def blake(payload):
    payload["predicate"]["serialization"]["hash_type"] = "blake2b"


def no_algorithm(payload):
    del payload["predicate"]["resources"][0]["algorithm"]


def old_predicate(payload):
    payload["predicateType"] = "https://model_signing/Digests/v0.1"


def old_statement(payload):
    payload["_type"] = "https://in-toto.io/Statement/v0.1"


def symlinks_as_text(payload):
    payload["predicate"]["serialization"]["allow_symlinks"] = "false"


@pytest.mark.parametrize(
    "lie",
    [
        *(subject_twice, wrong_root, twice, nothing, climb, absolute, backslash, both, all_ignored, shards, blake),
        *(no_algorithm, old_predicate, old_statement, symlinks_as_text, reorder),
    ],
)
def test_a_signed_statement_that_is_ambiguous_or_of_another_version_is_malformed(model, signature, lie):
    sign_directory(model, KEY, signature)
    forge(signature, lie)
    with pytest.raises(MalformedError, match=r"model\.sig: payload"):
        verify_directory(model, signature, KEY.public)


def test_a_name_twice_in_the_signed_statement_is_malformed(model, signature):
    sign_directory(model, KEY, signature)

    def raw(payload):
        text = json.dumps(payload)
        return text.replace('"predicate": {', '"predicate": {"resources": [], ', 1).encode()

    forge(signature, lambda payload: None, raw=raw)
    with pytest.raises(MalformedError, match="'resources' stands twice"):
        verify_directory(model, signature, KEY.public)


def test_a_file_that_the_signature_ignores_is_refused_unless_it_is_accepted(model, signature, they):
    (model / "README.md").write_text("x")
    they.sign(model, signature, paths=["README.md"])
    assert rules(verify_directory(model, signature, KEY.public)) == [("unsigned-file", "README.md")]
    report = verify_directory(model, signature, KEY.public, unsigned=["README.md"])
    assert report.passed
    assert report.details["unsigned"] == ["README.md"]


@pytest.mark.parametrize("accepted", ["docs", "docs/a.md"])
def test_of_a_folder_that_the_signature_ignores_a_part_or_all_is_accepted(model, signature, they, accepted):
    (model / "docs").mkdir()
    (model / "docs" / "a.md").write_text("x")
    they.sign(model, signature, paths=["docs"])
    assert verify_directory(model, signature, KEY.public, unsigned=[accepted]).details["unsigned"] == [accepted]
    (model / "docs" / "b.md").write_text("x")
    found = verify_directory(model, signature, KEY.public, unsigned=[accepted])
    assert rules(found) == ([] if accepted == "docs" else [("unsigned-file", "docs/b.md")])


def test_a_file_that_came_later_is_accepted_by_its_path(model, signature):
    sign_directory(model, KEY, signature)
    (model / "README.md").write_text("x")
    assert rules(verify_directory(model, signature, KEY.public)) == [("extra-file", "README.md")]
    assert verify_directory(model, signature, KEY.public, unsigned=["README.md"]).details["unsigned"] == ["README.md"]


@pytest.mark.parametrize("accepted", ["weights.bin", "tokenizer", "tokenizer/vocab.json"])
def test_what_somebody_signed_is_verified_whatever_is_accepted(model, signature, accepted):
    sign_directory(model, KEY, signature)
    (model / "weights.bin").write_bytes(b"other")
    (model / "tokenizer" / "vocab.json").write_text("other")
    expected = [("changed-file", "tokenizer/vocab.json"), ("changed-file", "weights.bin")]
    assert rules(verify_directory(model, signature, KEY.public, unsigned=[accepted])) == expected


def test_fields_that_version_one_does_not_have_are_ignored(model, signature, they):
    sign_directory(model, KEY, signature)
    forge(signature, lambda payload: payload["predicate"].update(card={"by": "me"}))
    they.verify(model, signature)
    assert verify_directory(model, signature, KEY.public).passed


def test_links_that_the_signer_followed_are_refused(model, signature, they, keys):
    link(model)
    hashing = tool.hashing.Config().use_file_serialization(allow_symlinks=True).set_allow_symlinks(allow_symlinks=True)
    config = tool.signing.Config().use_elliptic_key_signer(private_key=keys / "key.pem")
    config.set_hashing_config(hashing).sign(model, signature)
    assert ("odd-file", "weights.bin") in rules(verify_directory(model, signature, KEY.public))
    (model / "weights.bin").unlink()
    (model.parent / "weights.bin").rename(model / "weights.bin")
    assert verify_directory(model, signature, KEY.public).passed


# The file itself


@pytest.mark.parametrize(
    "change",
    [
        lambda bundle: bundle.update(mediaType="application/vnd.dev.sigstore.bundle.v0.2+json"),
        lambda bundle: bundle.pop("dsseEnvelope"),
        lambda bundle: bundle.pop("verificationMaterial"),
        lambda bundle: bundle["verificationMaterial"].pop("publicKey"),
        lambda bundle: bundle["verificationMaterial"].update(publicKey=[]),
        lambda bundle: bundle["dsseEnvelope"]["signatures"].append(bundle["dsseEnvelope"]["signatures"][0]),
        lambda bundle: bundle["dsseEnvelope"].update(signatures=[]),
        lambda bundle: bundle["dsseEnvelope"].update(payload="?"),
        lambda bundle: bundle["dsseEnvelope"].update(payload=bundle["dsseEnvelope"]["payload"] + "\n"),
    ],
)
def test_what_is_no_signature_file_of_a_key_is_malformed(model, signature, change):
    sign_directory(model, KEY, signature)
    edit(signature, change)
    with pytest.raises(MalformedError, match=r"model\.sig"):
        verify_directory(model, signature, KEY.public)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 1000, b'{"a":1,"a":2}', b"null"])
def test_what_is_no_json_object_is_malformed(model, signature, data):
    signature.write_bytes(data)
    with pytest.raises(MalformedError):
        verify_directory(model, signature, KEY.public)


def test_the_signature_of_an_identity_says_how_it_is_verified(model, signature):
    sign_directory(model, KEY, signature)
    edit(signature, lambda bundle: bundle["verificationMaterial"].update(certificate={"rawBytes": ""}))
    with pytest.raises(UsageError, match="certificate"):
        verify_directory(model, signature, KEY.public)


@given(st.data())
def test_no_changed_byte_makes_a_signature_say_something_else(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("mutated")
    (folder / "m").mkdir()
    (folder / "m" / "a").write_bytes(b"1")
    sign_directory(folder / "m", KEY, folder / "sig")
    whole = bytearray((folder / "sig").read_bytes())
    place = data.draw(st.integers(0, 100_000)) % len(whole)  # ECDSA draws at random, and so the length varies
    whole[place] ^= data.draw(st.integers(1, 255))
    (folder / "sig").write_bytes(whole)
    (folder / "m" / "a").write_bytes(b"2")
    with contextlib.suppress(MalformedError, UsageError):
        assert not verify_directory(folder / "m", folder / "sig", KEY.public).passed
    (folder / "m" / "a").write_bytes(b"1")
    try:
        report = verify_directory(folder / "m", folder / "sig", KEY.public)
    except (MalformedError, UsageError):
        return
    assert not report.passed or report.details["signers"] == [KEY.keyid]


# What cannot be signed


def test_only_a_p256_key_signs_for_the_openssf_tool(model, signature):
    with pytest.raises(UsageError, match="ed25519"):
        sign_directory(model, PrivateKey.generate("ed25519"), signature)
    assert not signature.exists()


@pytest.mark.parametrize("damage", [link, link_folder, pipe])
def test_what_two_readers_see_differently_is_not_signed(model, signature, damage):
    damage(model)
    with pytest.raises(UsageError, match="cannot be signed"):
        sign_directory(model, KEY, signature)
    assert not signature.exists()


def test_odd_names_are_not_signed(model, signature):
    (model / "a:b").write_text("x")
    os.close(os.open(os.fsencode(model) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(UsageError, match="a:b"):
        sign_directory(model, KEY, signature)


def test_an_empty_directory_a_file_and_nothing_are_not_signed(tmp_path, signature):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="no file to sign"):
        sign_directory(tmp_path / "nothing", KEY, signature)
    (tmp_path / "file").write_text("x")
    for path in ("file", "absent"):
        with pytest.raises(UsageError, match="no directory"):
            sign_directory(tmp_path / path, KEY, signature)


def test_folders_without_end_are_refused(tmp_path, signature):
    (tmp_path / "deep" / "/".join("d" * 70)).mkdir(parents=True)
    with pytest.raises(MalformedError, match="64 deep"):
        sign_directory(tmp_path / "deep", KEY, signature)


def test_a_signature_that_is_not_there_is_an_error_with_a_remedy(model, signature):
    with pytest.raises(StoreError, match="could not read"):
        verify_directory(model, signature, KEY.public)
    with pytest.raises(UsageError, match="no key"):
        verify_directory(model, signature, [])


def test_a_full_path_leaves_nothing_half_written(model, tmp_path):
    with pytest.raises(StoreError, match="could not write"):
        sign_directory(model, KEY, tmp_path / "no" / "such" / "folder.sig")
    (tmp_path / "taken").mkdir()
    with pytest.raises(StoreError, match="could not write"):
        sign_directory(model, KEY, tmp_path / "taken")
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


# Artifacts


def test_an_artifact_is_signed_without_hashing_and_its_export_verifies_anywhere(store, tmp_path, signature, they):
    digest = save(store, {"weights/w": b"1", "vitrify.json": b"{}"}, "churn:latest")
    signature.write_bytes(sign_artifact(store, digest, KEY, name="churn"))
    assert verify_artifact(store, digest, signature, KEY.public).passed
    directory.export(Artifact.of(store, digest, "churn:latest"), tmp_path / "out")
    they.verify(tmp_path / "out", signature)
    assert verify_directory(tmp_path / "out", signature, KEY.public).passed
    shutil.copy(signature, tmp_path / "out" / "model.sig")
    assert verify_directory(tmp_path / "out", tmp_path / "out" / "model.sig", KEY.public).passed
    other = save(store, {"weights/w": b"2", "vitrify.json": b"{}"}, "other:latest")
    assert ("changed-file", "weights/w") in rules(verify_artifact(store, other, signature, KEY.public))
    assert not verify_artifact(store, digest, signature, OTHER.public).passed


def commit(store, manifest):
    """Commit a manifest of one file ``w`` as it is."""
    with store.stage() as stage:
        with stage.open("w", "weight") as stream:
            stream.write(b"1")
        return stage.commit(lambda files: (manifest, store.blob(manifest.config.content).read_bytes()), None)


def test_an_artifact_with_the_same_files_and_another_manifest_is_another_one(store, signature):
    digest = save(store, {"w": b"1"}, "churn:latest")
    signature.write_bytes(sign_artifact(store, digest, KEY))
    same = stores.read_manifest(store, digest).replace(annotations={"description": "other"})
    other = commit(store, same)
    report = verify_artifact(store, other, signature, KEY.public)
    assert rules(report) == [("changed-file", ".modelpack/manifest.json")]
    assert (directory.MANIFEST, directory.CONFIG) == DOCUMENTS


def test_an_artifact_that_is_no_set_of_files_is_not_signed_as_one(store, signature):
    manifest = stores.read_manifest(store, save(store, {"w": b"1"}, "churn:latest"))
    bare = manifest.replace(layers=(manifest.layers[0].replace(annotations={}),))
    digest = commit(store, bare)
    with pytest.raises(UsageError, match="no path"):
        sign_artifact(store, digest, KEY)


def test_an_artifact_with_a_file_that_would_be_ignored_is_not_signed(store):
    digest = save(store, {"model.sig": b"1", "w": b"2"}, "churn:latest")
    with pytest.raises(UsageError, match=r"model\.sig"):
        sign_artifact(store, digest, KEY)
    with pytest.raises(ReferenceNotFoundError):
        sign_artifact(store, type(digest).of(b"else"), KEY)


paths = st.lists(st.text("abc.-_", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)


@given(st.sets(paths, min_size=1, max_size=8))
def test_the_statement_of_any_files_is_read_as_it_was_written(names):
    names = {name for name in names if not {".", ".."} & set(name.split("/"))} or {"a"}
    resources = tuple(Resource(name=name, algorithm="sha256", digest="ab" * 32) for name in sorted(names))
    envelope = dsse.sign(statement("m", resources, GIT).to_json(), "application/vnd.in-toto+json", [KEY])
    bundle = Bundle.of(envelope, KEY.public)
    read = Bundle.from_builtins(strict_json(bundle.to_json(), where="sig"), where="sig").dsse_envelope
    assert read_signed(read.content, read.payload_type, where="sig").files == dict.fromkeys(names, "ab" * 32)
