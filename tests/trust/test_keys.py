"""Keys: two algorithms, an id that everybody computes alike, a private key that stays private."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import pickle
import shutil
import stat
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x25519
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrify.core.errors import (
    AuthenticationError,
    ConflictError,
    ForgedError,
    MalformedError,
    StoreError,
    UsageError,
)
from vitrify.testing.signers import SignerConformance
from vitrify.trust import keys
from vitrify.trust.keys import ALGORITHMS, PrivateKey, PublicKey, is_encrypted

PAIRS = {algorithm: PrivateKey.generate(algorithm) for algorithm in ALGORITHMS}
OTHERS = {algorithm: PrivateKey.generate(algorithm) for algorithm in ALGORITHMS}
each = pytest.mark.parametrize("algorithm", ALGORITHMS)


class TestEd25519(SignerConformance):
    def signer(self):
        return PAIRS["ed25519"]


class TestP256(SignerConformance):
    def signer(self):
        return PAIRS["ecdsa-p256"]


def spki(key):
    return key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)


def pkcs8(key, encryption=None):
    return key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption or form.NoEncryption())


@each
def test_the_id_is_the_digest_of_the_subject_public_key_info(algorithm):
    key = PAIRS[algorithm].public
    der = form.load_pem_public_key(key.pem).public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    assert key.keyid == f"sha256:{hashlib.sha256(der).hexdigest()}"
    assert PublicKey.load(key.pem) == key
    assert str(key) == key.keyid


@each
@given(data=st.binary(), changed=st.data())
def test_a_signature_holds_for_its_bytes_and_its_key_alone(algorithm, data, changed):
    key = PAIRS[algorithm]
    signature = key.sign(data)
    key.public.verify(data, signature)
    place = changed.draw(st.integers(0, 63))  # ECDSA in DER has 68 to 72 bytes, now and then fewer
    bad = bytearray(signature)
    bad[place % len(bad)] ^= changed.draw(st.integers(1, 255))
    lies = [
        (data, bytes(bad)),
        (data + b"x", signature),
        (data, signature + b"\0"),
        (data, signature[:-1]),
        (data, b""),
    ]
    for said, claimed in lies:
        with pytest.raises(ForgedError, match=key.keyid):
            key.public.verify(said, claimed)
    with pytest.raises(ForgedError):
        OTHERS[algorithm].public.verify(data, signature)


def test_the_signature_of_one_algorithm_is_none_of_the_other():
    for one, other in (ALGORITHMS, ALGORITHMS[::-1]):
        with pytest.raises(ForgedError):
            PAIRS[one].public.verify(b"x", PAIRS[other].sign(b"x"))


# At rest


@each
def test_a_saved_key_is_encrypted_for_this_user_only_and_comes_back(algorithm, tmp_path):
    path = tmp_path / "key.pem"
    old = os.umask(0)
    try:
        PAIRS[algorithm].save(path, "päss")
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert is_encrypted(path)
    assert PrivateKey.load(path, "päss".encode()).keyid == PAIRS[algorithm].keyid
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix != ""] == ["key.pem"]


@pytest.mark.external
@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_openssl_reads_our_encrypted_key_and_we_read_its(tmp_path):
    PAIRS["ecdsa-p256"].save(tmp_path / "ours.pem", "pass")
    command = ["openssl", "pkey", "-in", tmp_path / "ours.pem", "-passin", "pass:pass", "-pubout"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == PAIRS["ecdsa-p256"].public.pem
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-aes-256-cbc", "-pass", "pass:x"]
    subprocess.run([*command, "-out", tmp_path / "theirs.pem"], capture_output=True, check=True)
    assert PrivateKey.load(tmp_path / "theirs.pem", "x").algorithm == "ed25519"


def test_guessing_a_passphrase_costs_a_memory_hard_function(tmp_path):
    PAIRS["ed25519"].save(tmp_path / "key.pem", "pass")
    body = b"".join((tmp_path / "key.pem").read_bytes().splitlines()[1:-1])
    der = base64.b64decode(body)
    assert bytes.fromhex("06092b06010401da47040b") in der  # id-scrypt
    assert bytes.fromhex("02024000020108020105") in der  # N = 16384, r = 8, p = 5


def test_two_files_of_one_key_have_nothing_in_common(tmp_path):
    for name in ("a", "b"):
        PAIRS["ed25519"].save(tmp_path / name, "pass")
    assert (tmp_path / "a").read_bytes()[-100:] != (tmp_path / "b").read_bytes()[-100:]


def test_a_wrong_or_missing_passphrase_is_said_so(tmp_path):
    PAIRS["ed25519"].save(tmp_path / "key.pem", "pass")
    with pytest.raises(AuthenticationError, match="passphrase is wrong"):
        PrivateKey.load(tmp_path / "key.pem", "other")
    with pytest.raises(AuthenticationError, match="there is no passphrase") as caught:
        PrivateKey.load(tmp_path / "key.pem")
    assert "VITRIFY_PASSPHRASE" in caught.value.remedy


@pytest.mark.parametrize(("passphrase", "unencrypted"), [(None, False), ("x", True), ("", False), ("x" * 1025, False)])
def test_no_passphrase_has_to_be_asked_for(tmp_path, passphrase, unencrypted):
    with pytest.raises(UsageError):
        PAIRS["ed25519"].save(tmp_path / "key.pem", passphrase, unencrypted=unencrypted)
    assert not list(tmp_path.glob("*.pem"))


def test_an_unencrypted_key_is_for_this_user_only_and_takes_no_passphrase(tmp_path):
    PAIRS["ed25519"].save(tmp_path / "key.pem", unencrypted=True)
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    assert not is_encrypted(tmp_path / "key.pem")
    assert PrivateKey.load(tmp_path / "key.pem").keyid == PAIRS["ed25519"].keyid
    with pytest.raises(UsageError, match="not encrypted"):
        PrivateKey.load(tmp_path / "key.pem", "pass")


def test_a_key_is_never_replaced(tmp_path):
    (tmp_path / "key.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConflictError, match="not replaced"):
        PAIRS["ed25519"].save(tmp_path / "key.pem", unencrypted=True)
    assert not (tmp_path / "elsewhere").exists()


def test_a_full_disk_leaves_no_half_key(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vitrify.trust._private_file.os.fsync", full)
    with pytest.raises(StoreError, match="No space"):
        PAIRS["ed25519"].save(tmp_path / "key.pem", unencrypted=True)
    assert not [entry for entry in tmp_path.iterdir() if "key" in entry.name]


def test_a_private_key_is_not_shown(tmp_path):
    PAIRS["ed25519"].save(tmp_path / "key.pem", unencrypted=True)
    assert PAIRS["ed25519"].keyid in repr(PAIRS["ed25519"])
    with pytest.raises(UsageError, match="private key") as caught:
        PublicKey.load(tmp_path / "key.pem")
    assert "PRIVATE" not in caught.value.message
    with pytest.raises(TypeError):
        pickle.dumps(PAIRS["ed25519"])


# Strange keys


STRANGERS = [
    rsa.generate_private_key(65537, 2048),
    ec.generate_private_key(ec.SECP384R1()),
    ec.generate_private_key(ec.SECP256K1()),
    ed448.Ed448PrivateKey.generate(),
    x25519.X25519PrivateKey.generate(),
    dsa.generate_private_key(2048),
]


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda key: type(key).__name__)
def test_a_key_of_another_algorithm_is_refused_by_name(stranger, tmp_path):
    with pytest.raises(UsageError, match="expected ed25519 or ecdsa-p256"):
        PublicKey.load(spki(stranger))
    (tmp_path / "key.pem").write_bytes(pkcs8(stranger))
    with pytest.raises(UsageError, match="expected ed25519 or ecdsa-p256"):
        PrivateKey.load(tmp_path / "key.pem")


def test_there_are_two_algorithms():
    with pytest.raises(UsageError, match="ed25519, ecdsa-p256"):
        PrivateKey.generate("rsa")


FIELD = 2**255 - 19
SPELLINGS = [y for y in (*keys._LOW_ORDER, *(y + FIELD for y in range(19))) if y < 2**255]


def raw(y, sign):
    return (y | sign << 255).to_bytes(32, "little")


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("y", SPELLINGS)
def test_a_point_for_which_anybody_can_sign_is_refused(y, sign):
    try:
        point = ed25519.Ed25519PublicKey.from_public_bytes(raw(y, sign))
    except ValueError:
        return  # the library refuses it already
    with pytest.raises(MalformedError, match="low order"):
        PublicKey.load(point.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))


def test_the_refused_points_are_those_of_low_order():
    d = -121665 * pow(121666, -1, FIELD) % FIELD

    def add(one, other):
        (x1, y1), (x2, y2) = one, other
        k = d * x1 * x2 * y1 * y2
        return (
            (x1 * y2 + x2 * y1) * pow(1 + k, -1, FIELD) % FIELD,
            (y1 * y2 + x1 * x2) * pow(1 - k, -1, FIELD) % FIELD,
        )

    def root(square):
        x = pow(square, (FIELD + 3) // 8, FIELD)
        x = x if x * x % FIELD == square else x * pow(2, (FIELD - 1) // 4, FIELD) % FIELD
        assert x * x % FIELD == square
        return x

    for y in keys._LOW_ORDER:
        point = (root((y * y - 1) * pow(d * y * y + 1, -1, FIELD) % FIELD), y)
        for _ in range(3):
            point = add(point, point)
        assert point == (0, 1)
    assert len(keys._LOW_ORDER) == 5  # 1, -1, 0 and two of order 8: with the sign of x, all 8 points of the subgroup


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        PAIRS["ed25519"].public.pem * 2,
        PAIRS["ed25519"].public.pem + b"x",
        b"x" + PAIRS["ed25519"].public.pem,
        PAIRS["ed25519"].public.pem.replace(b"PUBLIC", b"CERTIFIED"),
        PAIRS["ed25519"].public.pem.replace(b"MCow", b"MCox"),
        PAIRS["ed25519"].public.pem.replace(b"\n", b"", 2),
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ],
)
def test_what_is_not_one_public_key_and_nothing_else_is_malformed(data, tmp_path):
    with pytest.raises(MalformedError):
        PublicKey.load(data)
    (tmp_path / "key.pem").write_bytes(data)
    with pytest.raises((MalformedError, UsageError)):
        PrivateKey.load(tmp_path / "key.pem")


def test_a_damaged_private_key_is_malformed(tmp_path):
    PAIRS["ecdsa-p256"].save(tmp_path / "key.pem", unencrypted=True)
    whole = (tmp_path / "key.pem").read_bytes()
    (tmp_path / "bad.pem").write_bytes(whole.replace(whole.splitlines()[1], b"AAAA"))
    with pytest.raises(MalformedError, match="not a private key"):
        PrivateKey.load(tmp_path / "bad.pem")
    with pytest.raises(StoreError, match="could not read"):
        PrivateKey.load(tmp_path / "absent.pem")
    (tmp_path / "large.pem").write_bytes(b"x" * 70_000)
    with pytest.raises(MalformedError, match="more than 65536"):
        PublicKey.load(tmp_path / "large.pem")


def test_a_public_key_cannot_sign(tmp_path):
    (tmp_path / "key.pub").write_bytes(PAIRS["ed25519"].public.pem)
    with pytest.raises(UsageError, match="cannot sign"):
        PrivateKey.load(tmp_path / "key.pub")


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_no_bytes_make_a_public_key_by_accident(data):
    with pytest.raises((MalformedError, UsageError)):
        PublicKey.load(b"-----BEGIN PUBLIC KEY-----\n" + data + b"\n-----END PUBLIC KEY-----\n")
