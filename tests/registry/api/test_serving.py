"""How the server starts, what it refuses to start with, and how it ends."""

import datetime as dt
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest
from click.testing import CliRunner
from servers import PATIENCE, call, running_server, until

from vitrify.cli.registry import command
from vitrify.core.digest import Digest
from vitrify.core.errors import DeniedError, UnavailableError, UsageError
from vitrify.registry.api.serving import Listening, serve
from vitrify.registry.places import local_backend
from vitrify.registry.registry import Registry
from vitrify.registry.remote import RemoteBackend


@pytest.fixture
def backend(tmp_path):
    opened = local_backend(str(tmp_path / "registry"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return the files of a certificate for 127.0.0.1 that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


def refused(backend, listening):
    serve(backend, listening, ready=lambda url: pytest.fail(f"it serves {url}"))


def test_without_an_admin_it_does_not_start_and_says_how_to_make_one(backend):
    with pytest.raises(DeniedError, match="no default password") as error:
        refused(backend, Listening(port=0))
    assert "vitrify registry token create" in error.value.remedy
    assert "--role admin" in error.value.remedy


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.1", "models.example.org", "::"])
def test_plain_http_to_other_machines_has_to_be_asked_for(backend, host):
    with pytest.raises(UsageError, match="in the clear") as error:
        refused(backend, Listening(host=host, port=0))
    assert "--insecure-http" in error.value.remedy
    Listening(host=host, insecure=True).check()


def test_a_certificate_without_its_key_is_refused(backend, certificate):
    with pytest.raises(UsageError, match="and its key"):
        refused(backend, Listening(certificate=certificate[0]))


def test_the_commands_make_list_and_revoke_tokens(tmp_path):
    place = ["--registry", str(tmp_path / "registry")]

    def run(*arguments):
        done = CliRunner().invoke(command, [*arguments, *place], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    secret = run("token", "create", "--who", "me", "--role", "admin", "--days", "0").strip()
    assert secret.startswith("vit_")
    other = json.loads(run("token", "create", "--who", "ci", "--role", "writer", "--models", "team/*", "--json"))
    assert other["models"] == ["team/*"]
    listed = run("token", "list")
    assert secret.rpartition("_")[2] not in listed
    assert "ci" in listed
    assert "never" in listed
    run("token", "revoke", other["id"])
    assert "revoked" in run("token", "list")
    assert [token["who"] for token in json.loads(run("token", "list", "--json"))] == ["me", "ci"]
    assert "the database is at" in run("migrate")


def test_what_is_a_server_already_is_not_served():
    done = CliRunner().invoke(command, ["serve", "--registry", "https://models.example.org"])
    assert isinstance(done.exception, UsageError)
    done = CliRunner().invoke(command, ["migrate", "--registry", "http://127.0.0.1:9"])
    assert isinstance(done.exception, UsageError)


def test_help_imports_neither_a_database_nor_a_server():
    code = (
        "import sys; from vitrify.cli.registry import command; command(['--help'], standalone_mode=False); "
        "assert not {'sqlalchemy', 'uvicorn', 'numpy', 'urllib3'} & set(sys.modules), set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


def test_a_port_that_is_taken_is_said(registry_server):
    backend = registry_server.local()
    with pytest.raises(UsageError, match="cannot listen"):
        refused(backend, Listening(port=registry_server.port))
    backend.close()


def test_anonymous_readers_have_to_be_allowed_and_only_read(tmp_path):
    with running_server(tmp_path, options=("--anonymous", "reader")) as server:
        assert call(server, "GET", "/v1/models")[0] == 200
        assert call(server, "POST", "/v1/models", body={"name": "a"})[0] == 403
        assert call(server, "GET", "/v1/tokens")[0] == 403
        assert call(server, "GET", "/v1/models", token="vit_wrong")[0] == 401
        Registry(RemoteBackend(server.url)).head()


def test_events_are_sent_to_webhooks_while_it_runs(tmp_path):
    from vitrify.registry.requests import CreateWebhook, ListDeliveries
    from vitrify.registry.webhooks import signature

    with (
        socket.create_server(("127.0.0.1", 0)) as hook,
        running_server(tmp_path, options=("--webhook-network", "127.0.0.0/8")) as server,
    ):
        hook.settimeout(PATIENCE)
        client = server.client("admin")
        made = client.do(CreateWebhook(url=f"http://127.0.0.1:{hook.getsockname()[1]}/events", kinds=("model.*",)))
        client.create_model("churn")
        connection, _ = hook.accept()
        with connection, connection.makefile("rb") as stream:
            head = {}
            assert stream.readline().startswith(b"POST /events ")
            while line := stream.readline().strip().decode():
                name, _, value = line.partition(": ")
                head[name.lower()] = value
            body = stream.read(int(head["content-length"]))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        assert json.loads(body)["kind"] == "model.created"
        signed = signature(made.secret, int(head["vitrify-timestamp"]), body)
        assert head["vitrify-signature"] in signed.values()
        until(lambda: [one.state for one in client.do(ListDeliveries(id=made.id)).deliveries] == ["sent"], "it is sent")
        client.close()


def test_a_network_that_is_none_is_refused(tmp_path):
    place = ["--registry", str(tmp_path / "registry")]
    done = CliRunner().invoke(command, ["serve", *place, "--webhook-network", "everything"])
    assert isinstance(done.exception, UsageError)


def test_tls_is_spoken_and_checked(tmp_path, certificate, monkeypatch):
    options = ("--tls-certificate", str(certificate[0]), "--tls-key", str(certificate[1]))
    with running_server(tmp_path, options=options) as server:
        url = server.url.replace("http:", "https:")
        token = server.token("reader")
        with pytest.raises(UnavailableError, match="TLS failed"):
            Registry(RemoteBackend(url, token)).head()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        registry = Registry(RemoteBackend(url, token))
        assert registry.head().seq == 2
        registry.close()
        with pytest.raises(UnavailableError):
            Registry(RemoteBackend(server.url, token)).head()


def nobody_listens(server):
    try:
        call(server, "GET", "/health/live")
    except OSError:
        return True
    return False


def test_what_is_being_answered_when_it_is_told_to_end_is_finished(tmp_path):
    data = os.urandom(30_000_000)
    digest = Digest.of(data)
    with running_server(tmp_path) as server:
        token = server.token("writer")
        assert call(server, "PUT", f"/v1/content/{digest}", token=token, raw=data)[0] == 201
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
            head = f"GET /v1/content/{digest} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
            connection.sendall(head.encode())
            received = len(connection.recv(1000))
            stopping, codes = threading.Thread(target=lambda: codes.append(server.stop(signal.SIGTERM))), []
            stopping.start()
            until(lambda: nobody_listens(server), "nobody listens any more")
            while piece := connection.recv(1 << 20):
                received += len(piece)
        stopping.join(PATIENCE)
        assert codes == [0]
        assert received > len(data)
        lines = [json.loads(line) for line in server.log.read_text().splitlines()[1:]]
        assert lines[-1]["operation"] == "GetContent"
        assert lines[-1]["sent"] == len(data)


def test_a_database_that_goes_away_is_unavailable_and_comes_back(tmp_path, postgresql):
    import psycopg

    place = postgresql.database()
    with running_server(tmp_path, place, tmp_path / "blobs") as server:
        token = server.token("admin")
        assert call(server, "GET", "/v1/models", token=token)[0] == 200
        name = place.rpartition("/")[2]
        with psycopg.connect(postgresql.url(driver="postgresql"), autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
            status, headers, data = call(server, "GET", "/v1/models", token=token)
            assert (status, headers["retry-after"]) == (503, "1")
            assert name.encode() not in data
            assert call(server, "GET", "/health/ready")[0] == 503
            assert call(server, "GET", "/health/live")[0] == 200
            connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        until(lambda: call(server, "GET", "/v1/models", token=token)[0] == 200, "it answers again")
        assert call(server, "GET", "/health/ready")[0] == 200
