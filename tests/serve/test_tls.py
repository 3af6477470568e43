"""TLS and mutual TLS of the whole server, over REST and gRPC: who has no right certificate is nobody."""

from __future__ import annotations

import http.client
import ssl
from types import SimpleNamespace

import grpc
import pytest
from both_planes import INFER
from certificates import certified
from plugged import GLASS, answers, connected, document, exchange, firsts, head, plug_in, rpc
from whole_server import whole

from vitrify.core.errors import UsageError
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import LIMIT, twice


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """An authority, a server and a client that it knows, and a stranger who is known to nobody but himself."""
    folder = tmp_path_factory.mktemp("papers")
    authority = certified(folder, "authority")
    known = {name: certified(folder, name, authority) for name in ("server", "client")}
    return SimpleNamespace(authority=authority, stranger=certified(folder, "stranger"), **known)


def _serving(papers, store, **more):
    told = {"certificate": str(papers.server[2]), "key": str(papers.server[3]), **more}
    return whole("auto", store, (), server=told)


@pytest.fixture(scope="module")
def running(papers, tmp_path_factory):
    with _serving(papers, OciLayout(tmp_path_factory.mktemp("store"))) as running:
        plug_in(running, twice)
        yield running


@pytest.fixture(scope="module")
def mutual(papers, tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("store"))
    with _serving(papers, store, client_authority=str(papers.authority[2])) as running:
        plug_in(running, twice)
        yield running


def rest(running, roots, own=None):
    """Ask over REST as somebody who trusts these roots; returns the status and the first value."""
    context = ssl.create_default_context(cafile=roots[2])
    if own:
        context.load_cert_chain(own[2], own[3])
    connection = http.client.HTTPSConnection(running.http, timeout=LIMIT, context=context)
    try:
        connection.request("POST", f"/v2/models/{GLASS}/infer", document(3))
        response = connection.getresponse()
        return response.status, firsts(response.read())
    finally:
        connection.close()


def by_grpc(running, roots, own=None):
    """Ask over gRPC likewise; returns the code."""
    pair = (own[3].read_bytes(), own[2].read_bytes()) if own else (None, None)
    credentials = grpc.ssl_channel_credentials(roots[2].read_bytes(), *pair)
    with grpc.secure_channel(running.grpc, credentials, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        return code(channel)


def code(channel):
    try:
        channel.unary_unary(INFER)(rpc(3), timeout=LIMIT)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def test_tls_is_spoken_by_the_plane_that_can(running, papers):
    assert running.plane == "python"
    assert rest(running, papers.authority) == (200, [3])
    assert by_grpc(running, papers.authority) is grpc.StatusCode.OK


def test_a_client_that_trusts_another_authority_does_not_go_on(running, papers):
    with pytest.raises(ssl.SSLCertVerificationError):
        rest(running, papers.stranger)
    assert by_grpc(running, papers.stranger) is grpc.StatusCode.UNAVAILABLE
    assert rest(running, papers.authority) == (200, [3])


@pytest.mark.parametrize("sent", [head(document(1)), b"", b"\x16\x03\x01\x00\x05hello", bytes(4096)])
@pytest.mark.parametrize("port", ["http", "grpc"])
def test_what_is_no_tls_is_not_answered(running, papers, port, sent):
    assert not any(200 <= status < 300 for status, _, _ in _http(exchange(getattr(running, port), sent, end=True)))
    assert rest(running, papers.authority) == (200, [3])
    assert by_grpc(running, papers.authority) is grpc.StatusCode.OK


def _http(text):
    return answers(text) if text.startswith(b"HTTP/") else []


def test_plain_grpc_is_not_answered(running):
    with grpc.insecure_channel(running.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        assert code(channel) is grpc.StatusCode.UNAVAILABLE


def test_who_has_a_certificate_of_the_authority_is_let_in(mutual, papers):
    assert rest(mutual, papers.authority, papers.client) == (200, [3])
    assert by_grpc(mutual, papers.authority, papers.client) is grpc.StatusCode.OK


@pytest.mark.parametrize("own", [None, "stranger"], ids=["none", "a stranger's"])
def test_who_has_none_or_a_strangers_is_not(mutual, papers, own):
    paper = getattr(papers, own) if own else None
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        rest(mutual, papers.authority, paper)
    assert by_grpc(mutual, papers.authority, paper) is grpc.StatusCode.UNAVAILABLE
    assert rest(mutual, papers.authority, papers.client) == (200, [3])


def test_who_leaves_in_the_middle_of_a_handshake_harms_nobody(running, papers):
    for _ in range(20):
        for address in (running.http, running.grpc):
            with connected(address) as connection:
                connection.sendall(b"\x16\x03\x01\x02\x00\x01")
    assert rest(running, papers.authority) == (200, [3])


@pytest.mark.parametrize(
    ("plane", "more", "said"),
    [
        ("native", {}, "no TLS"),
        ("auto", {"key": ""}, "certificate"),
        ("auto", {"certificate": "", "client_authority": "x"}, "certificate"),
        ("auto", {"certificate": "/nowhere.pem"}, "cannot be"),
        ("auto", {"client_authority": "/nowhere.pem"}, "cannot be"),
    ],
)
def test_what_cannot_be_spoken_is_said_at_the_start(papers, tmp_path, plane, more, said):
    told = {"certificate": str(papers.server[2]), "key": str(papers.server[3]), **more}
    with pytest.raises(UsageError, match=said), whole(plane, OciLayout(tmp_path), (), server=told):
        pass
