"""Envelope encryption: streams, recipients, key files, the envelope, and memory that is no file."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import ConflictError, DeniedError, ForgedError, MalformedError, StoreError, UsageError
from vitrify.core.wire import to_builtins
from vitrify.trust import encryption as enc
from vitrify.trust.encryption.envelope import ALGORITHM
from vitrify.trust.encryption.keys import VARIABLE
from vitrify.trust.encryption.memory import Memory
from vitrify.trust.encryption.recipients import key_id, open_key
from vitrify.trust.encryption.stream import file_key, seal, sealed_size, unseal

KEY = bytes(range(32))
CHUNK = 1024
TAG = 16


def sealed(plain, path="model.onnx", key=KEY):
    return b"".join(seal(memoryview(plain), file_key(key, path), CHUNK))


def opened(data, size, path="model.onnx", key=KEY):
    into = bytearray(size)
    unseal(memoryview(data), memoryview(into), file_key(key, path), CHUNK, where=path)
    return bytes(into)


def pair():
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    return enc.X25519Identity(private), enc.X25519Recipient(private.public_key())


def quick(text="correct horse battery"):
    return enc.Passphrase(text, work=4)


def envelope(key=KEY, **changes):
    _, recipient = pair()
    return enc.Envelope.of(key, {"model.onnx": 5, enc.SOURCE: 9}, (recipient.wrap(key),)).replace(**changes)


# Streams


@given(st.binary(max_size=3 * CHUNK + 7))
def test_what_is_sealed_opens_to_the_same_bytes_and_has_the_size_that_was_said(plain):
    data = sealed(plain)
    assert len(data) == sealed_size(len(plain), CHUNK)
    assert opened(data, len(plain)) == plain


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
def test_every_edge_of_a_chunk_is_sealed_and_opened(size):
    plain = os.urandom(size)
    assert opened(sealed(plain), size) == plain


@given(st.integers(0, 3 * CHUNK + 3 * TAG - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(place, change):
    data = bytearray(sealed(bytes(3 * CHUNK)))
    data[place] ^= change
    with pytest.raises(ForgedError, match=r"chunk . of 3"):
        opened(bytes(data), 3 * CHUNK)


def test_a_stream_that_was_cut_at_a_chunk_does_not_open_as_a_shorter_file():
    data = sealed(bytes(3 * CHUNK))
    with pytest.raises(ForgedError, match="chunk 2 of 2"):
        opened(data[: 2 * (CHUNK + TAG)], 2 * CHUNK)
    with pytest.raises(ForgedError, match="expected 3120"):
        opened(data[:-1], 3 * CHUNK)


def test_chunks_cannot_change_places_or_come_twice_or_from_another_file_or_artifact():
    plain = os.urandom(3 * CHUNK)
    data, step = sealed(plain), CHUNK + TAG
    first, second, third = data[:step], data[step : 2 * step], data[2 * step :]
    for mixed in (second + first + third, first + first + third, first + third + second):
        with pytest.raises(ForgedError):
            opened(mixed, 3 * CHUNK)
    for other in (sealed(plain, path="other.onnx"), sealed(plain, key=bytes(32))):
        with pytest.raises(ForgedError, match="chunk 1 of 3"):
            opened(other, 3 * CHUNK)


def test_a_chunk_opens_with_the_bare_library_by_what_the_page_says():
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    plain = os.urandom(CHUNK + 5)
    data = sealed(plain)
    cipher = AESGCM(file_key(KEY, "model.onnx"))
    assert cipher.decrypt(bytes(12), data[: CHUNK + TAG], None) == plain[:CHUNK]
    assert cipher.decrypt(bytes(10) + b"\x01\x01", data[CHUNK + TAG :], None) == plain[CHUNK:]


# Recipients


def test_each_recipient_opens_the_key_and_nobody_else_does():
    (me, for_me), (you, for_you), (stranger, _) = pair(), pair(), pair()
    stanzas = (for_me.wrap(KEY), for_you.wrap(KEY), quick().wrap(KEY))
    for identity in (me, you, quick()):
        assert open_key(stanzas, (stranger, identity)) == KEY
    for nobody in (stranger, quick("correct horse staple")):
        with pytest.raises(DeniedError, match="no identity that was given"):
            open_key(stanzas, (nobody,))
    with pytest.raises(DeniedError, match="no identity was given") as caught:
        open_key(stanzas, ())
    assert "VITRIFY_IDENTITY" in caught.value.remedy
    assert stanzas[0].key in caught.value.message


def test_wrapping_twice_gives_different_bytes():
    _, recipient = pair()
    assert recipient.wrap(KEY) != recipient.wrap(KEY)
    assert quick().wrap(KEY) != quick().wrap(KEY)


def test_a_wrapped_key_that_was_changed_is_a_forgery_not_somebody_else():
    me, recipient = pair()
    stanza = recipient.wrap(KEY)
    raw = bytearray(base64.b64decode(stanza.wrapped))
    for place in (0, 40, len(raw) - 1):
        changed = bytearray(raw)
        changed[place] ^= 1
        with pytest.raises(ForgedError, match="was changed"):
            me.unwrap(stanza.replace(wrapped=base64.b64encode(changed).decode()))
    for cut in (b"", bytes(raw[:20])):
        with pytest.raises(ForgedError):
            me.unwrap(stanza.replace(wrapped=base64.b64encode(cut).decode()))
    with pytest.raises(MalformedError, match="no base64"):
        me.unwrap(stanza.replace(wrapped="%%%"))


def test_a_passphrase_says_no_to_a_changed_stanza_and_refuses_endless_work():
    stanza = quick().wrap(KEY)
    assert quick().unwrap(stanza.replace(salt=base64.b64encode(bytes(16)).decode())) is None
    assert quick().unwrap(stanza.replace(wrapped="")) is None
    for work in (0, 21, 63):
        with pytest.raises(MalformedError, match="asks for scrypt"):
            quick().unwrap(stanza.replace(work=work))


def test_the_same_passphrase_opens_however_its_letters_are_composed():
    assert quick("Scho\u0308ne Gru\u0308sse an alle").unwrap(quick("Sch\u00f6ne Gr\u00fcsse an alle").wrap(KEY)) == KEY


def test_short_passphrases_are_refused_and_secrets_are_never_shown():
    with pytest.raises(UsageError, match="expected 10"):
        enc.Passphrase("short")
    assert "horse" not in repr(quick())
    assert "private" not in repr(pair()[0]).replace("X25519PrivateKey", "")


def test_hpke_is_the_one_of_the_standard(tmp_path):
    """Unwrapped by hand, as RFC 9180 has it: the library's suite is the one that the docstring names."""
    from cryptography.hazmat.primitives import hpke

    me, recipient = pair()
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
    wrapped = base64.b64decode(recipient.wrap(KEY).wrapped)
    assert suite.decrypt(wrapped, me.private, info=b"vitrify encryption v1 wrap x25519") == KEY


# Key files


def test_a_key_that_was_made_is_read_again_and_is_its_owners_alone(tmp_path):
    made = enc.generate(tmp_path / "me.pem")
    assert (tmp_path / "me.pem").stat().st_mode & 0o777 == 0o600
    (read,) = enc.identities(tmp_path / "me.pem")
    assert read.private.private_bytes_raw() == made.private.private_bytes_raw()
    word = enc.public_text(enc.X25519Recipient(made.private.public_key()))
    assert key_id(enc.recipient(word).public) == key_id(made.private.public_key())
    with pytest.raises(ConflictError):
        enc.generate(tmp_path / "me.pem")


@pytest.mark.external
def test_keys_of_openssl_are_read(tmp_path):
    private, public = tmp_path / "k.pem", tmp_path / "p.pem"
    try:
        subprocess.run(["openssl", "genpkey", "-algorithm", "X25519", "-out", private], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    (me,) = enc.identities(private)
    assert me.unwrap(enc.recipient(str(public)).wrap(KEY)) == KEY


def test_the_environment_names_a_file_with_several_keys_or_a_passphrase(tmp_path, monkeypatch):
    assert enc.identities() == ()
    enc.generate(tmp_path / "a.pem")
    enc.generate(tmp_path / "b.pem")
    both = tmp_path / "both.pem"
    both.write_bytes((tmp_path / "a.pem").read_bytes() + b"# a comment\n" + (tmp_path / "b.pem").read_bytes())
    monkeypatch.setenv(VARIABLE, str(both))
    assert len(enc.identities()) == 2
    (tmp_path / "words").write_text("passphrase: correct horse battery\n")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "words"))
    assert enc.identities()[0].unwrap(quick().wrap(KEY)) == KEY


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"passphrase: short",
        b"passphrase: \xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        b"x" * 70_000,
    ],
)
def test_a_file_that_holds_no_key_is_refused_with_what_to_do(tmp_path, content):
    (tmp_path / "k").write_bytes(content)
    with pytest.raises(MalformedError):
        enc.identities(tmp_path / "k")
    with pytest.raises(MalformedError):
        enc.recipient(str(tmp_path / "k"))


def test_keys_of_other_kinds_and_files_that_are_not_there_are_refused(tmp_path):
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    plain = form.NoEncryption()
    (tmp_path / "k").write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, plain))
    (tmp_path / "p").write_bytes(
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(MalformedError, match="another kind"):
        enc.identities(tmp_path / "k")
    with pytest.raises(MalformedError, match="another kind"):
        enc.recipient(str(tmp_path / "p"))
    for missing in (tmp_path / "nothing", "a\0b"):
        with pytest.raises((StoreError, MalformedError, UsageError)):
            enc.identities(missing)
    for word in ("x25519:", "x25519:AAAA", "x25519:" + "*" * 43):
        with pytest.raises(UsageError):
            enc.recipient(word)


# The envelope


def test_the_envelope_holds_for_its_own_key_and_for_nothing_that_was_changed():
    made = envelope()
    made.check(KEY)
    with pytest.raises(ForgedError):
        made.check(bytes(32))
    _, other = pair()
    for changed in (
        {"chunk": 2048},
        {"files": {**made.files, "model.onnx": 6}},
        {"files": {**made.files, "more": 1}},
        {"recipients": (*made.recipients, other.wrap(KEY))},
        {"recipients": (other.wrap(KEY),)},
        {"mac": ""},
        {"mac": "\u00e9"},
        {"extra": {"note": "added"}},
    ):
        with pytest.raises(ForgedError):
            made.replace(**changed).check(KEY)


def test_the_envelope_comes_back_from_json():
    made = envelope()
    assert enc.Envelope.from_builtins(to_builtins(made), where="test") == made


@pytest.mark.parametrize(
    "change",
    [
        {"chunk": 1},
        {"chunk": 2**40},
        {"files": {"model.onnx": 5}},
        {"files": {"model.onnx": -5, enc.SOURCE: 1}},
        {"files": {"../up": 5, enc.SOURCE: 1}},
        {"recipients": []},
        {"recipients": [{"kind": "x", "wrapped": ""}] * 65},
        {"recipients": [{"kind": "x"}]},
        {"files": "none"},
    ],
)
def test_an_envelope_that_no_honest_writer_made_is_refused(change):
    with pytest.raises(MalformedError):
        enc.Envelope.from_builtins({**to_builtins(envelope()), **change}, where="test")


def test_an_envelope_of_a_newer_kind_says_so():
    from vitrify.core.document import Document

    newer = {**to_builtins(envelope()), "version": 2}
    with pytest.raises(UsageError, match="version 2"):
        enc.Envelope.read(Document(schema=1, format="onnx", runtime=None, encryption=newer))
    other = {**to_builtins(envelope()), "algorithm": "ROT13"}
    with pytest.raises(UsageError, match=ALGORITHM):
        enc.Envelope.read(Document(schema=1, format="onnx", runtime=None, encryption=other))
    with pytest.raises(MalformedError):
        enc.Envelope.read(Document(schema=1, format="onnx", runtime=None))


# Memory


def fill(content):
    def filling(view):
        view[:] = content

    return filling


@pytest.mark.parametrize("content", [b"", b"some bytes", bytes(70_000)])
def test_memory_has_a_view_and_a_path_and_cannot_be_written(content):
    memory = Memory(len(content), fill(content))
    assert bytes(memory.view) == content
    assert memory.view.readonly
    assert memory.path.read_bytes() == content
    with pytest.raises(PermissionError):
        os.pwrite(int(memory.path.name), b"x", 0)


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_memory_that_could_not_be_filled_is_given_back():
    def refuse(view):
        raise ForgedError("no")

    before = descriptors()
    for _ in range(5):
        with pytest.raises(ForgedError):
            Memory(100, refuse)
    made = Memory(10, fill(bytes(10)))
    del made
    assert descriptors() == before
    with pytest.raises(StoreError, match="no memory"):
        Memory(2**62, refuse)


def test_without_memory_files_there_is_a_view_and_no_path(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    for content in (b"", b"some bytes"):
        memory = Memory(len(content), fill(content))
        assert bytes(memory.view) == content
        assert memory.view.readonly
        with pytest.raises(UsageError, match="no memory files"):
            _ = memory.path
