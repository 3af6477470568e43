"""A directory's signature: ours is read by the OpenSSF tool and theirs by us, and neither takes what was not signed."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys

import pytest
from trust._signed_model import KEY, link, link_folder, pipe, rules

from vitrify.core.errors import MalformedError, StoreError, UsageError
from vitrify.trust._bundle import hint
from vitrify.trust.keys import PrivateKey
from vitrify.trust.model_signing import sign_directory, verify_directory

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
    pytest.importorskip("model_signing")

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
