"""PKCS #11 URIs: what they name, and that nothing which stands in one is passed over."""

from __future__ import annotations

import pytest

from vitrify.core.errors import AuthenticationError, ReferenceNotFoundError, StoreError, UsageError
from vitrify.trust._pkcs11_uri import MODULE_VARIABLE, KeyUri


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "module.so"
    path.touch()
    return path


def test_the_parts_of_a_uri_are_read(module):
    text = "token=The%20models%3B%25;serial=01;object=a&b;id=%01%FF;type=private"
    uri = KeyUri.parse(f"{text}?module-path={module}&pin-source=file:/run/pin?x")
    assert uri.token == {"token": "The models;%", "serial": "01"}
    assert (uri.label, uri.id, uri.module) == ("a&b", b"\x01\xff", module)
    assert str(uri.pin_source) == "/run/pin?x"


def test_all_parts_but_the_module_may_be_left_out(module):
    uri = KeyUri.parse(f"?module-path={module}")
    assert (uri.token, uri.label, uri.id, uri.pin_source, uri.pin()) == ({}, None, None, None, None)


def test_the_environment_names_a_module_where_the_uri_does_not(module, monkeypatch):
    monkeypatch.delenv(MODULE_VARIABLE, raising=False)
    with pytest.raises(UsageError, match="no module is named"):
        KeyUri.parse("object=a")
    monkeypatch.setenv(MODULE_VARIABLE, str(module))
    assert KeyUri.parse("object=a").module == module
    with pytest.raises(ReferenceNotFoundError, match="no PKCS #11 module at /absent"):
        KeyUri.parse("object=a?module-path=/absent")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("object", "not NAME=VALUE"),
        ("object=a;", "not NAME=VALUE"),
        ("object=a;object=b", "not NAME=VALUE"),
        ("object=a b", "not NAME=VALUE"),
        ("object=%", "not NAME=VALUE"),
        ("object=%4", "not NAME=VALUE"),
        ("object=%zz", "not NAME=VALUE"),
        ("object=%FF", "no text in UTF-8"),
        ("object=a;type=cert", "type=cert is no key pair"),
        ("object=a;x-mine=1", "'x-mine' is not taken"),
        ("object=a;slot-id=1", "'slot-id' is not taken"),
        ("object=a;module-path=/m", "'module-path' is not taken"),
        ("object=a?object=b", "'object' is not taken"),
        ("object=a?module-name=m", "'module-name' is not taken"),
        ("object=a?module-path=m.so", "no absolute path"),
        ("object=a?pin-source=|cat", "no absolute path"),
    ],
)
def test_what_is_not_understood_is_refused(text, message, module, monkeypatch):
    monkeypatch.setenv(MODULE_VARIABLE, str(module))
    with pytest.raises(UsageError, match=message):
        KeyUri.parse(text)


def test_a_pin_in_a_uri_is_refused_and_not_repeated(module):
    with pytest.raises(UsageError, match="seen by everybody") as caught:
        KeyUri.parse(f"object=a?module-path={module}&pin-value=8812")
    assert "8812" not in str(caught.value)


@pytest.mark.parametrize(("content", "pin"), [("1234", "1234"), ("1234\r\nmore\n", "1234"), (" 1 \n", " 1 ")])
def test_a_pin_is_the_first_line_of_its_file(module, tmp_path, content, pin):
    (tmp_path / "pin").write_bytes(content.encode())
    assert KeyUri.parse(f"?module-path={module}&pin-source={tmp_path}/pin").pin() == pin


def test_a_file_without_a_pin_is_told(module, tmp_path):
    uri = KeyUri.parse(f"?module-path={module}&pin-source={tmp_path}/pin")
    with pytest.raises(StoreError, match="could not read"):
        uri.pin()
    (tmp_path / "pin").write_text("\n1234\n")
    with pytest.raises(AuthenticationError, match="first line is empty"):
        uri.pin()
