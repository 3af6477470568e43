"""A directory's signature file that was forged, or says what can be read in two ways, is refused or malformed."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trust._signed_model import KEY, OTHER, edit, forge, link, rules

from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.strict import strict_json
from vitrify.trust import dsse
from vitrify.trust._bundle import Bundle, Resource, hint, read_signed, root_digest, statement
from vitrify.trust.model_signing import sign_directory, verify_directory

GIT = (".git", ".gitattributes", ".github", ".gitignore")

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


def test_links_that_the_signer_followed_are_refused(model, signature, keys):
    tool = pytest.importorskip("model_signing")
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


paths = st.lists(st.text("abc.-_", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)


@given(st.sets(paths, min_size=1, max_size=8))
def test_the_statement_of_any_files_is_read_as_it_was_written(names):
    names = {name for name in names if not {".", ".."} & set(name.split("/"))} or {"a"}
    resources = tuple(Resource(name=name, algorithm="sha256", digest="ab" * 32) for name in sorted(names))
    envelope = dsse.sign(statement("m", resources, GIT).to_json(), "application/vnd.in-toto+json", [KEY])
    bundle = Bundle.of(envelope, KEY.public)
    read = Bundle.from_builtins(strict_json(bundle.to_json(), where="sig"), where="sig").dsse_envelope
    assert read_signed(read.content, read.payload_type, where="sig").files == dict.fromkeys(names, "ab" * 32)
