"""Who we are to a registry: Basic with a real one, tokens, and a file of credentials that may be anything."""

import base64
import datetime as dt
import ipaddress
import json
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import oci_registry_with_password
from stores._small_registry import small_registry

from vitrify.core.errors import AuthenticationError, MalformedError, UnavailableError, VitrifyError
from vitrify.stores import pull, push
from vitrify.stores.oci_registry._credentials import Credentials, credentials
from vitrify.stores.oci_registry._login import _parse
from vitrify.testing.stores import contents, save

__all__ = ["oci_registry_with_password"]

FILES = {"weights": b"weights" * 100_000, "vitrify.json": b"{}"}


@pytest.fixture(autouse=True)
def nobody(tmp_path, monkeypatch):
    """Give the test no credentials but its own."""
    monkeypatch.delenv("REGISTRY_AUTH_FILE", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.fixture
def login(tmp_path):
    """Return a function that writes the file of credentials."""

    def write(host, **entry):
        (tmp_path / "docker").mkdir(exist_ok=True)
        (tmp_path / "docker" / "config.json").write_text(json.dumps({"auths": {host: entry}}))

    return write


@pytest.fixture
def small(small):
    small.password = "reader:secret"
    return small


@pytest.fixture
def artifact(store):
    return save(store, FILES, "churn:latest")


def coded(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.external
def test_a_password_opens_a_real_registry(store, artifact, other, oci_registry_with_password, login):
    server = oci_registry_with_password
    target = f"oci://{server.host}/churn:1"
    with pytest.raises(AuthenticationError, match="there are no credentials for it") as caught:
        push(store, artifact, target)
    assert f"skopeo login {server.host}" in caught.value.remedy
    login(server.host, auth=coded(f"{server.user}:wrong"))
    with pytest.raises(AuthenticationError, match="does not take the credentials of 'reader'") as caught:
        push(store, artifact, target)
    assert "wrong" not in str(caught.value)
    login(server.host, auth=coded(f"{server.user}:{server.password}"))
    push(store, artifact, target)
    assert pull(other, target) == artifact
    assert contents(other, artifact) == FILES


@pytest.fixture
def encrypted(tmp_path):
    """Run a registry behind TLS, with a certificate of its own that nobody knows."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + dt.timedelta(hours=1))
    builder = builder.add_extension(alternatives, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    path = tmp_path / "certificate.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with small_registry(context) as server:
        server.certificate = path
        yield server


def test_a_registry_must_show_a_certificate_that_is_trusted(encrypted, store, artifact, other, monkeypatch):
    monkeypatch.setattr("vitrify.stores.oci_registry._transport.is_loopback", lambda host: False)
    monkeypatch.setattr("vitrify.stores.oci_registry._transport._TRIES", 0)
    target = f"oci://{encrypted.host}/churn:1"
    with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        push(store, artifact, target)
    assert "SSL_CERT_FILE" in caught.value.remedy
    assert encrypted.log == []
    monkeypatch.setenv("SSL_CERT_FILE", str(encrypted.certificate))
    push(store, artifact, target)
    assert pull(other, target) == artifact
    assert contents(other, artifact) == FILES


def test_a_token_is_asked_for_once_and_for_what_is_done(small, store, artifact, other, login):
    login(small.host, auth=coded("reader:secret"))
    push(store, artifact, f"oci://{small.host}/team/churn:1")
    assert small.scopes == ["repository:team/churn:pull,push", "x:y:z"]
    pull(other, f"oci://{small.host}/team/churn:1")
    assert small.scopes == ["repository:team/churn:pull", "x:y:z"]
    assert len([path for path in small.requests("GET") if path.startswith("/token")]) == 2


def test_a_mount_asks_for_both_repositories(small, store, artifact, login):
    login(small.host, username="reader", password="secret")
    push(store, artifact, f"oci://{small.host}/first:1")
    push(store, artifact, f"oci://{small.host}/second:1", mount_from="first")
    assert small.scopes[:2] == ["repository:second:pull,push", "repository:first:pull"]


def test_a_token_that_expires_in_the_middle_is_replaced(small, store, artifact, other, login):
    login(small.host, auth=coded("reader:secret"))
    push(store, artifact, f"oci://{small.host}/churn:1")

    def forget(handler):
        if "/blobs/" in handler.path:
            small.tokens.clear()
            small.manners.clear()
        return False

    small.manners.append(forget)
    assert pull(other, f"oci://{small.host}/churn:1") == artifact


def test_without_credentials_a_token_is_asked_for_too(small, artifact, other):
    with pytest.raises(AuthenticationError, match="no credentials"):
        pull(other, f"oci://{small.host}/churn:1")
    ((_, _, headers),) = [entry for entry in small.log if entry[1].startswith("/token")]
    assert "Authorization" not in headers


def test_a_refresh_token_is_sent_as_a_form(small, other, login):
    login(small.host, auth=coded("reader:"), identitytoken="refresh me")
    seen = []

    def token(handler):
        if handler.command != "POST":
            return False
        seen.append(handler.body())
        return handler.answer(200, b'{"access_token":"abc"}')

    small.manners.append(token)
    small.tokens.add("abc")
    with pytest.raises(VitrifyError, match="not in the registry"):
        pull(other, f"oci://{small.host}/churn:1")
    assert b"grant_type=refresh_token" in seen[0]
    assert b"refresh_token=refresh+me" in seen[0]


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"<html>", b"[]", b"{}", b'{"token":5}', b'{"token":"a\\r\\nX-Evil: 1"}', b'{"token":""}', b"[" * 9000),
        b'{"token":"' + b"x" * 70_000 + b'"}',
    ],
)
def test_a_token_server_that_gives_none(small, other, login, answer):
    login(small.host, auth=coded("reader:secret"))
    small.manners.append(lambda handler: handler.path.startswith("/token") and handler.answer(200, answer))
    with pytest.raises(MalformedError, match="gives no token"):
        pull(other, f"oci://{small.host}/churn:1")


@pytest.mark.parametrize("realm", ["", "file:///etc/passwd", "http://user:x@127.0.0.1/", "gopher://127.0.0.1/"])
def test_a_realm_that_is_no_address(small, other, login, realm):
    login(small.host, auth=coded("reader:secret"))
    challenge = f'Bearer realm="{realm}"'
    small.manners.append(lambda handler: handler.answer(401, WWW_Authenticate=challenge))
    with pytest.raises(MalformedError):
        pull(other, f"oci://{small.host}/churn:1")


@pytest.mark.parametrize("challenge", ["Negotiate abc", "", "Basically", "\x1b[2J"])
def test_a_challenge_of_another_kind(small, other, challenge):
    small.manners.append(lambda handler: handler.answer(401, WWW_Authenticate=challenge))
    with pytest.raises(AuthenticationError):
        pull(other, f"oci://{small.host}/churn:1")


def test_a_registry_that_is_never_content_is_left(small, other, login):
    login(small.host, auth=coded("reader:secret"))
    small.manners.append(
        lambda handler: (
            "/token" not in handler.path
            and handler.answer(
                401, WWW_Authenticate=f'Bearer realm="http://{small.host}/token",service="small, \\"registry\\""'
            )
        )
    )
    with pytest.raises(AuthenticationError):
        pull(other, f"oci://{small.host}/churn:1")
    assert len(small.log) < 10


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        (
            'Bearer realm="https://a/t",service="s, t",scope="a b"',
            {"realm": "https://a/t", "service": "s, t", "scope": "a b"},
        ),
        ('bearer  realm = "a\\"b" , Service=x', {"realm": 'a"b', "service": "x"}),
        ("Basic", {}),
        ("Basic realm=x", {"realm": "x"}),
    ],
)
def test_a_challenge_is_read_as_it_is_quoted(challenge, expected):
    assert _parse(challenge, "host")[1] == expected


@given(
    text=st.text(max_size=200).map("Bearer ".__add__) | st.from_regex(r'Basic ([a-z]="\\?[^"]*",?)*', fullmatch=True)
)
def test_any_challenge_is_read_without_a_crash(text):
    _parse(text, "host")


@pytest.mark.parametrize(
    ("key", "host"),
    [
        *(("ghcr.io", "ghcr.io"), ("https://ghcr.io/v1/", "ghcr.io"), ("localhost:5000", "localhost:5000")),
        ("https://index.docker.io/v1/", "docker.io"),
    ],
)
def test_a_host_is_found_however_it_is_written(login, key, host):
    login(key, auth=coded("a:b:c"))
    assert credentials(host) == Credentials("a", "b:c")
    assert credentials("another.io") is None


def test_the_other_tools_variable_is_asked_first(login, tmp_path, monkeypatch):
    login("host", auth=coded("docker:x"))
    (tmp_path / "auth.json").write_text(json.dumps({"auths": {"host": {"auth": coded("skopeo:y")}}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "auth.json"))
    assert credentials("host") == Credentials("skopeo", "y")


def test_credentials_are_never_shown():
    assert "secret" not in repr(Credentials("user", "secret", "secret"))


@pytest.mark.parametrize("content", ["", "[]", "{", '{"auths":[1]}', "[" * 9000, "\0"])
def test_a_file_that_is_none_is_said_without_its_content(tmp_path, content):
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "config.json").write_text(content)
    with pytest.raises(MalformedError, match=r"config\.json"):
        credentials("host")


@pytest.mark.parametrize(
    "entry", [{"auth": "secret!"}, {"auth": coded("secret")}, {"auth": 5}, {"username": 5}, {"identitytoken": 5}]
)
def test_an_entry_that_is_none_is_said_without_its_content(login, entry):
    login("host", **entry)
    with pytest.raises(MalformedError) as caught:
        credentials("host")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("content", ["{}", '{"auths":null}', '{"auths":{}}', '{"auths":{"host":{}}}'])
def test_a_file_without_an_entry_gives_nobody(tmp_path, content):
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "config.json").write_text(content)
    assert credentials("host") is None
