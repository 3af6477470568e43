"""Keys by name, by path and by scheme: each reference leads to one key or to an error with a remedy."""

from __future__ import annotations

import stat

import pytest

from vitrify.core import catalog as catalogs
from vitrify.core.catalog import Catalog
from vitrify.core.errors import (
    AuthenticationError,
    ConflictError,
    ReferenceNotFoundError,
    StoreError,
    UnavailableError,
    UsageError,
)
from vitrify.core.row import Row
from vitrify.testing.signers import SignerConformance
from vitrify.trust import keyring as rings
from vitrify.trust.keyring import Keyring
from vitrify.trust.keys import PrivateKey, PublicKey

MODULE = {"slot-1": PrivateKey.generate("ecdsa-p256"), "slot-2": PrivateKey.generate("ed25519")}


class HardwareModule:
    """A source of keys that do not leave it, and that wants a PIN."""

    def open(self, rest, passphrase):
        if rest == "broken":
            raise OSError("the module is not plugged in")
        if rest == "liar":
            return Handle(MODULE["slot-1"], MODULE["slot-2"].keyid)
        if rest not in MODULE:
            msg = f"the module has no key {rest!r}"
            raise ReferenceNotFoundError(msg)
        if passphrase is not None and passphrase() != "1234":
            raise AuthenticationError("the PIN is wrong")
        return Handle(MODULE[rest])


class Handle:
    """What a module gives out: it signs, and there is no private key to be had from it."""

    def __init__(self, key, keyid=None):
        self.public, self.algorithm, self.keyid, self.sign = key.public, key.algorithm, keyid or key.keyid, key.sign


class TestHandle(SignerConformance):
    def signer(self):
        return Handle(MODULE["slot-1"])


@pytest.fixture
def ring(home):
    return Keyring()


@pytest.fixture
def module(monkeypatch):
    row = Row(kind="signer", name="hsm", target=f"{__name__}:HardwareModule")
    monkeypatch.setattr(Row, "load", lambda self: HardwareModule())
    monkeypatch.setattr(rings, "catalog", lambda: Catalog([*catalogs.BUILTIN, row]))


def test_a_made_key_is_found_by_its_name_and_by_its_path(ring, home):
    public = ring.generate("release", "ecdsa-p256", passphrase="pass")
    assert ring.names() == ("release",)
    assert ring.private("release") == home / "keys" / "release.pem"
    assert stat.S_IMODE((home / "keys" / "release.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((home / "keys").stat().st_mode) == 0o700
    assert ring.verifier("release") == ring.verifier(str(home / "keys" / "release.pub")) == public
    for reference in ("release", str(ring.private("release"))):
        assert ring.signer(reference, passphrase=lambda: "pass").keyid == public.keyid


def test_a_passphrase_is_asked_for_only_where_one_is_needed(ring):
    ring.generate("open", passphrase=None, unencrypted=True)
    assert ring.signer("open", passphrase=lambda: pytest.fail("asked")).algorithm == "ed25519"
    ring.generate("closed", passphrase="pass")
    with pytest.raises(AuthenticationError, match="no passphrase"):
        ring.signer("closed")
    with pytest.raises(AuthenticationError, match="wrong"):
        ring.signer("closed", passphrase=lambda: "other")


def test_nothing_is_replaced(ring):
    first = ring.generate("release", passphrase="a")
    with pytest.raises(ConflictError):
        ring.generate("release", passphrase="b")
    ring.private("release").unlink()
    with pytest.raises(ConflictError):
        ring.generate("release", passphrase="b")
    assert ring.verifier("release") == first
    assert not ring.private("release").exists()


def test_half_a_pair_is_not_left_behind(ring, monkeypatch):
    def full(path, data, *, mode):
        raise StoreError("could not write: No space left on device")

    monkeypatch.setattr(rings, "create", full)
    with pytest.raises(StoreError):
        ring.generate("release", passphrase="x")
    assert ring.names() == ()


def test_no_key_is_made_without_a_decision_about_its_passphrase(ring):
    with pytest.raises(UsageError):
        ring.generate("release", passphrase=None)
    assert ring.names() == ()


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../a", "a b", "ä", "a.", "-a", "x" * 65, "a\n"])
def test_a_name_stays_in_the_keyring(ring, name):
    with pytest.raises(UsageError, match="not a name"):
        ring.generate(name, passphrase="x")


def test_what_is_not_there_says_what_is(ring, tmp_path):
    with pytest.raises(ReferenceNotFoundError, match="there are: none"):
        ring.verifier("release")
    ring.generate("release", passphrase="x")
    with pytest.raises(ReferenceNotFoundError, match="there are: release"):
        ring.signer("relaese")
    with pytest.raises(ReferenceNotFoundError, match="no key at"):
        ring.signer(str(tmp_path / "absent.pem"))


def test_a_file_in_the_working_directory_is_not_taken_for_a_name(ring, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key = PrivateKey.generate()
    key.save("release", unencrypted=True)
    with pytest.raises(ReferenceNotFoundError):
        ring.signer("release")
    assert ring.signer("./release").keyid == key.keyid


def test_other_files_in_the_keyring_are_no_keys(ring):
    ring.root.mkdir(parents=True)
    for name in ("notes.txt", ".pem", "-x.pem"):
        (ring.root / name).write_text("x")
    assert ring.names() == ()


def test_a_scheme_leads_to_a_plugin(ring, module):
    signer = ring.signer("hsm:slot-1", passphrase=lambda: "1234")
    assert signer.keyid == MODULE["slot-1"].keyid
    assert ring.verifier("hsm:slot-2") == MODULE["slot-2"].public
    signer.public.verify(b"x", signer.sign(b"x"))


def test_what_a_plugin_raises_is_one_of_our_errors(ring, module):
    with pytest.raises(UnavailableError, match="not plugged in"):
        ring.signer("hsm:broken")
    with pytest.raises(AuthenticationError, match="PIN"):
        ring.signer("hsm:slot-1", passphrase=lambda: "0")
    with pytest.raises(ReferenceNotFoundError, match="no key 'slot-9'"):
        ring.signer("hsm:slot-9")


def test_a_plugin_whose_key_is_not_its_key_is_refused(ring, module):
    with pytest.raises(UsageError, match="says that it is"):
        ring.signer("hsm:liar")


def test_a_scheme_that_nobody_has_is_said_so(ring):
    with pytest.raises(UsageError, match="no signer is called 'tpm2'"):
        ring.signer("tpm2:0x81010001")


def test_a_key_that_was_made_elsewhere_is_used_by_its_path(ring, tmp_path):
    key = PrivateKey.generate("ecdsa-p256")
    key.save(tmp_path / "k.key", unencrypted=True)
    assert ring.signer(str(tmp_path / "k.key")).keyid == key.keyid
    (tmp_path / "k.pub").write_bytes(key.public.pem)
    assert ring.verifier(str(tmp_path / "k.pub")) == PublicKey.load(key.public.pem)
