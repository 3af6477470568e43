"""A policy is read strictly: what means nothing is an error that names its place."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import LimitExceededError, MalformedError, StoreError, VitrifyError
from vitrify.trust.keys import PrivateKey
from vitrify.trust.policy import Policy, default_policy
from vitrify.trust.policy.document import MAX_BYTES
from vitrify.trust.policy.match import glob
from vitrify.trust.policy.rules import RULES

KEY = PrivateKey.generate()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.pub").write_bytes(KEY.public.pem)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "b.pub").write_bytes(PrivateKey.generate("ecdsa-p256").public.pem)
    return tmp_path


def read(text, base=None):
    return Policy.from_bytes(text.encode(), base=base, where="p.toml")


def required(rule, more='names = ["*"]', actions='["load"]'):
    return f"[[require]]\nfor = {actions}\n{more}\nrules = [{{ {rule} }}]\n"


def test_a_policy_is_read_with_its_keys_beside_it(folder):
    text = (
        '[keys.a]\nfile = "a.pub"\nnames = ["x"]\n[keys.b]\nfile = "keys/b.pub"\nnames = ["*"]\npurposes = ["ship"]\n'
    )
    (folder / "p.toml").write_text(text + "not-before = 2026-01-01\nnot-after = 2027-01-01T00:00:00+02:00\n")
    policy = Policy.load(folder / "p.toml")
    assert policy.keys["a"].key.keyid == KEY.keyid
    assert policy.keys["a"].purposes == ("load", "serve", "ship", "promote")
    assert policy.keys["b"].not_before == datetime(2026, 1, 1, tzinfo=UTC)
    assert policy.keys["b"].not_after == datetime(2026, 12, 31, 22, tzinfo=UTC)
    assert {key.keyid for key in policy.public_keys} == {KEY.keyid, policy.keys["b"].key.keyid}


def test_an_empty_policy_requires_nothing():
    assert read("").requirements == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", "not TOML"),
        ("requires = []", "p.toml: unknown key 'requires'; is 'require' meant?"),
        ("require = 3", "p.toml: require is 3, expected a list"),
        ("require = [3]", "p.toml: require 1: found 3, expected a table"),
        ('signed-evidence = "yes"', "signed-evidence is 'yes', expected true or false"),
        ("keys = []", r"keys is \[\], expected a table"),
        (required('rule = "scann"'), "require 1, rule 1: unknown rule 'scann'; is 'scan' meant?"),
        (required('rule = "zzz"'), "unknown rule 'zzz' .expected one of: approved, attestation"),
        (required('rul = "scan"'), r"require 1, rule 1: no rule \(but 'rul'\)"),
        (required('rule = "scan", max_age = "3d"'), "rule 1: unknown key 'max_age'; is 'max-age' meant?"),
        (required('rule = "scan", max-age = 3'), "max-age is 3, expected hours, days or weeks"),
        (required('rule = "scan", max-age = "3 months"'), "max-age is '3 months'"),
        (required('rule = "scan", max-age = "0d"'), "max-age is '0d'"),
        (required('rule = "scan", max-age = "-3d"'), "max-age is '-3d'"),
        (required('rule = "scan", max-age = "3٣d"'), "max-age is"),
        (required('rule = "parity", absolute = nan'), "absolute is nan, expected a finite number from 0"),
        (required('rule = "parity", absolute = -1e-9'), "absolute is -1e-09"),
        (required('rule = "parity", absolute = true'), "absolute is True"),
        (required('rule = "metric", name = "auc"'), "expected at-least or at-most"),
        (required('rule = "metric", at-least = 1'), "rule 1: no name, expected a text"),
        (required('rule = "metric", name = "auc", at-least = inf'), "at-least is inf"),
        (required('rule = "metric", name = "auc", at-least = 2, at-most = 1'), "at-least is 2, expected at most 1"),
        (required('rule = "metric", name = "auc", at-least = 1' + "0" * 400), "at-least is a huge number"),
        (required('rule = "metric", name = "auc", equals = 1'), "expected at-least or at-most"),
        (required('rule = "attestation", type = "t", field = "f"'), "expected at-least or at-most"),
        (required('rule = "attestation", type = "t", equals = 1'), "unknown key 'equals'"),
        (required('rule = "attestation", type = "t", field = "f", equals = [1]'), "equals is a list"),
        (required('rule = "signed-by", keys = []'), r"keys is \[\], expected a list of one or more texts"),
        (required('rule = "signed-by", keys = ["a"], at-least = 2'), "at-least is 2, expected at most the number"),
        (required('rule = "signed-by", keys = ["a", "a"], at-least = 2'), "at-least is 2, expected at most the number"),
        (required('rule = "signed-by", keys = ["a"], at-least = 0'), "at-least is 0, expected a whole number"),
        (required('rule = "signed-by", keys = ["a"]'), "unknown key 'a'"),
        (required('rule = "approved", by = ["ada", "Ada"], at-least = 2'), "at most the number of people in by, 1"),
        (required('rule = "approved", at-least = true'), "at-least is True"),
        (required('rule = "sbom", formats = ["cyclondx"]'), "unknown format 'cyclondx'; is 'cyclonedx' meant?"),
        (required('rule = "status", in = ["activ"]'), "unknown status 'activ'; is 'active' meant?"),
        (required('rule = "stage"'), "no in, expected a list of texts"),
        (required('rule = "scan"', 'names = ["ch?rn"]'), "names is a list, expected patterns of names of models"),
        (required('rule = "scan"', 'names = ["a/../b"]'), "not 'a/../b'"),
        (required('rule = "scan"', 'names = ["t\u0435am"]'), "expected patterns"),
        (required('rule = "scan"', 'name = ["*"]'), r"no names \(but 'name'\)"),
        (required('rule = "scan"', "names = []"), r"names is \[\]"),
        (required('rule = "scan"', actions='["lode"]'), "unknown action 'lode'; is 'load' meant?"),
        (required('rule = "scan"', actions='["serve:x"]'), "unknown action 'serve:x'"),
        (required('rule = "scan"', actions='["pro*"]'), r"unknown action 'pro\*'"),
        ('[[require]]\nfor = ["load"]\nnames = ["*"]\nrules = []', r"rules is \[\], expected at least one rule"),
        ('[[require]]\nfor = ["load"]\nnames = ["*"]', "require 1: no rules, expected a list of tables"),
        ('[keys.a]\nfile = "a.pub"\nnames = ["*"]', "lies in no folder"),
        ("a = " + "[" * 5000, "not TOML"),
        ("a = 1" + "0" * 5000, "not TOML"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place_and_what_was_meant(text, message):
    with pytest.raises(MalformedError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('file = "../a.pub"', "keys.k: not a safe relative path"),
        ('file = "/etc/passwd"', "keys.k: not a safe relative path"),
        ('file = "none.pub"', "keys.k: .*none.pub cannot be read"),
        ('file = "p.pem"', "keys.k: .*private key"),
        ('file = "junk"', "keys.k: .*not one key in PEM"),
        ('file = "keys"', "keys.k: .*cannot be read"),
        ('file = "a.pub"\npurposes = ["sserve"]', "unknown purpose 'sserve'; is 'serve' meant?"),
        ('file = "a.pub"\npurpose = ["serve"]', "unknown key 'purpose'; is 'purposes' meant?"),
        ('file = "a.pub"\nnot-after = "2027"', "not-after is '2027', expected a date"),
        ('file = "a.pub"\nnot-after = 2027-01-01T00:00:00', "expected a date, or a time with its zone"),
        ('file = "a.pub"\nnot-before = 2027-01-01\nnot-after = 2026-01-01', "expected a moment after not-before"),
    ],
)
def test_a_key_that_cannot_be_what_its_author_meant_is_refused(folder, line, message):
    KEY.save(folder / "p.pem", unencrypted=True)
    (folder / "junk").write_text("junk")
    with pytest.raises(MalformedError, match=message):
        read(f'[keys.k]\nnames = ["*"]\n{line}\n', base=folder)


def test_a_misspelt_key_in_a_rule_is_found_when_the_file_is_read(folder):
    text = '[keys.release]\nfile = "a.pub"\nnames = ["*"]\n' + required('rule = "signed-by", keys = ["relaese"]')
    with pytest.raises(MalformedError, match="unknown key 'relaese'; is 'release' meant"):
        read(text, base=folder)


def test_a_file_without_end_is_not_read_to_its_end(folder):
    with pytest.raises(LimitExceededError, match="more than the limit"):
        read("#" * (MAX_BYTES + 1))
    with pytest.raises(LimitExceededError, match="/dev/zero has more"):
        Policy.load("/dev/zero")


@given(
    st.text(max_size=200) | st.sampled_from(sorted(RULES)).map(lambda name: required(f'rule = "{name}", in = ["a"]'))
)
def test_no_text_is_anything_but_a_policy_or_a_typed_error(text):
    with suppress(VitrifyError):
        assert isinstance(read(text), Policy)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_fits_what_the_regular_expression_of_it_fits(pattern, text):
    import re

    assert glob(pattern, text) is bool(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text))


def test_the_policy_of_a_machine_is_that_of_the_variable_else_of_its_home(home, tmp_path, monkeypatch):
    monkeypatch.delenv("VITRIFY_POLICY", raising=False)
    assert default_policy() is None
    home.mkdir(exist_ok=True)
    (home / "policy.toml").write_text(required('rule = "scan"'))
    assert len(default_policy().requirements) == 1
    (tmp_path / "other.toml").write_text("")
    monkeypatch.setenv("VITRIFY_POLICY", str(tmp_path / "other.toml"))
    assert default_policy().requirements == ()
    monkeypatch.setenv("VITRIFY_POLICY", "")
    assert len(default_policy().requirements) == 1


def test_a_policy_that_cannot_be_read_is_an_error_and_not_none(home, tmp_path, monkeypatch):
    monkeypatch.setenv("VITRIFY_POLICY", str(tmp_path / "missing.toml"))
    with pytest.raises(StoreError, match="cannot be read"):
        default_policy()
    monkeypatch.delenv("VITRIFY_POLICY")
    home.mkdir(exist_ok=True)
    (home / "policy.toml").symlink_to(tmp_path / "missing.toml")
    with pytest.raises(StoreError, match="cannot be read"):
        default_policy()
