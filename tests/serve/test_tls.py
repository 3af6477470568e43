"""TLS and mutual TLS of the whole server on both planes, over REST and gRPC: who has no right certificate is nobody."""

from __future__ import annotations

import http.client
import ssl
import warnings
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from both_planes import INFER
from certificates import certified
from plugged import GLASS, answers, connected, document, exchange, firsts, head, plug_in, rpc
from whole_server import PLANES, whole

from vitrify.core.errors import UsageError
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import LIMIT, row, twice


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """An authority, a server and clients that it knows, and a stranger who is known to nobody but himself."""
    folder = tmp_path_factory.mktemp("papers")
    authority = certified(folder, "authority")
    known = {name: certified(folder, name, authority) for name in ("server", "client")}
    expired = certified(folder, "expired", authority, until=-1)
    return SimpleNamespace(authority=authority, expired=expired, stranger=certified(folder, "stranger"), **known)


def _serving(plane, papers, store, **more):
    told = {"certificate": str(papers.server[2]), "key": str(papers.server[3]), **more}
    return whole(plane, store, (), server=told)


@pytest.fixture(scope="module", params=PLANES)
def running(request, papers, tmp_path_factory):
    with _serving(request.param, papers, OciLayout(tmp_path_factory.mktemp("store"))) as running:
        plug_in(running, twice)
        yield running


@pytest.fixture(scope="module", params=PLANES)
def mutual(request, papers, tmp_path_factory):
    store = OciLayout(tmp_path_factory.mktemp("store"))
    with _serving(request.param, papers, store, client_authority=str(papers.authority[2])) as running:
        plug_in(running, twice)
        yield running


def context_of(roots, own=None):
    """Return the TLS of a client who trusts these roots."""
    context = ssl.create_default_context(cafile=roots[2])
    if own:
        context.load_cert_chain(own[2], own[3])
    return context


def rest(running, roots, own=None):
    """Ask over REST as somebody who trusts these roots; returns the status and the first value."""
    connection = http.client.HTTPSConnection(running.http, timeout=LIMIT, context=context_of(roots, own))
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


def test_tls_is_spoken_on_both_ports(running, papers):
    assert rest(running, papers.authority) == (200, [3])
    assert by_grpc(running, papers.authority) is grpc.StatusCode.OK


def test_a_connection_is_kept_and_asked_again(running, papers):
    connection = http.client.HTTPSConnection(running.http, timeout=LIMIT, context=context_of(papers.authority))
    try:
        connection.connect()
        kept = connection.sock
        for number in range(50):
            connection.request("POST", f"/v2/models/{GLASS}/infer", document(number))
            response = connection.getresponse()
            assert (response.status, firsts(response.read())) == (200, [number])
            assert connection.sock is kept
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore:ssl.match_hostname:DeprecationWarning")  # of the client's library
@pytest.mark.parametrize("rows", [1, 5000, 200_000])
def test_tritonclient_sends_and_gets_bodies_of_any_size(running, papers, rows):
    values = row(*range(rows))
    roots = papers.authority[2]
    http_client = tritonclient.http.InferenceServerClient(
        running.http, ssl=True, ssl_context_factory=lambda: context_of(papers.authority), network_timeout=LIMIT
    )
    with (
        http_client as one,
        tritonclient.grpc.InferenceServerClient(running.grpc, ssl=True, root_certificates=str(roots)) as other,
    ):
        for client, module in ((one, tritonclient.http), (other, tritonclient.grpc)):
            tensor = module.InferInput("x", list(values.shape), "FP32")
            tensor.set_data_from_numpy(values)
            answer = client.infer(GLASS, [tensor])
            assert np.array_equal(answer.as_numpy("twice"), 2 * values)


def shaken(address, context, offered=()):
    """Shake hands; returns the version and the protocol that was chosen."""
    if offered:
        context.set_alpn_protocols(offered)
    with connected(address) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
        return sealed.version(), sealed.selected_alpn_protocol()


def sends_away(address, context, offered):
    """Whether who offers these protocols is refused, in the handshake or right after."""
    context.set_alpn_protocols(offered)
    try:
        with connected(address) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as sealed:
            return not sealed.recv(1)
    except (ssl.SSLError, ConnectionError):
        return True


def test_grpc_is_http_2_and_nothing_else(running, papers):
    assert shaken(running.grpc, context_of(papers.authority), ["http/1.1", "h2"])[1] == "h2"
    assert sends_away(running.grpc, context_of(papers.authority), ["http/1.1"])
    assert shaken(running.http, context_of(papers.authority), ["h2", "http/1.1"])[1] in {None, "http/1.1"}


@pytest.mark.parametrize("port", ["http", "grpc"])
@pytest.mark.parametrize("version", ["TLSv1_1", "TLSv1_2", "TLSv1_3"])
def test_what_is_older_than_tls_1_2_is_refused(running, papers, port, version):
    context = context_of(papers.authority)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the old version is what is tried
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    if version == "TLSv1_1":
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(ssl.SSLError, match=r"(?i)version|eof"):
            shaken(getattr(running, port), context)
    else:
        assert shaken(getattr(running, port), context, ["h2", "http/1.1"])[0] == version.replace("_", ".")


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


@pytest.mark.parametrize("own", [None, "stranger", "expired"], ids=["none", "a stranger's", "an old one"])
def test_who_has_none_that_is_good_is_not(mutual, papers, own):
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
        ("auto", {"key": ""}, "certificate"),
        ("auto", {"certificate": "", "client_authority": "x"}, "certificate"),
        ("python", {"certificate": "/nowhere.pem"}, "cannot be"),
        ("native", {"certificate": "/nowhere.pem"}, "cannot be used: /nowhere.pem: "),
        ("python", {"client_authority": "/nowhere.pem"}, "cannot be"),
        ("native", {"client_authority": "/nowhere.pem"}, "cannot be used: /nowhere.pem: "),
    ],
)
def test_what_cannot_be_spoken_is_said_at_the_start(papers, tmp_path, plane, more, said):
    told = {"certificate": str(papers.server[2]), "key": str(papers.server[3]), **more}
    with pytest.raises(UsageError, match=said), whole(plane, OciLayout(tmp_path), (), server=told):
        pass
