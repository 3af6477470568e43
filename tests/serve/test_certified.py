"""Who a client is by its certificate, on both planes and over both protocols: for the log, and for what it may ask."""

from __future__ import annotations

import hashlib
import http.client
import json
import ssl
from types import SimpleNamespace

import grpc
import pytest
from both_planes import INFER
from certificates import certified
from cryptography import x509
from plugged import GLASS, document, plug_in, rpc
from whole_server import PLANES, whole

from vitrify.core.errors import UsageError
from vitrify.serve.settings import ClientSettings
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import LIMIT, twice

TOKEN = "a token of ann's"
ANN = ClientSettings(name="ann", token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest())
BEARING = {"authorization": f"Bearer {TOKEN}"}
URI, DNS = x509.UniformResourceIdentifier("spiffe://shop/web"), x509.DNSName("web.shop")
MAIL = x509.RFC822Name("web@shop")


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    authority = certified(folder, "authority")
    named = {name: certified(folder, name, authority) for name in ("server", "bob", "ann", "carol")}
    others = {"all": (MAIL, DNS, URI), "dns": (MAIL, DNS), "mail": (MAIL,), "none": ()}
    named |= {name: certified(folder, name, authority, common=False, others=some) for name, some in others.items()}
    return SimpleNamespace(authority=authority, **named)


@pytest.fixture(params=PLANES)
def plane(request):
    return request.param


class Asker:
    """Asks a server as somebody with a certificate."""

    def __init__(self, running, papers):
        self.running, self.papers = running, papers

    def rest(self, own, headers=None):
        """Return the status."""
        context = ssl.create_default_context(cafile=self.papers.authority[2])
        context.load_cert_chain(own[2], own[3])
        connection = http.client.HTTPSConnection(self.running.http, timeout=LIMIT, context=context)
        try:
            connection.request("POST", f"/v2/models/{GLASS}/infer", document(3), headers or {})
            return connection.getresponse().status
        finally:
            connection.close()

    def rpc(self, own, headers=None):
        """Return the code."""
        roots = self.papers.authority[2].read_bytes()
        credentials = grpc.ssl_channel_credentials(roots, own[3].read_bytes(), own[2].read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(self.running.grpc, credentials, options) as channel:
            try:
                channel.unary_unary(INFER)(rpc(3), timeout=LIMIT, metadata=tuple((headers or {}).items()))
            except grpc.RpcError as error:
                return error.code().value[0]
            return 0


def serving(plane, papers, folder, clients=(), **more):
    told = {"certificate": str(papers.server[2]), "key": str(papers.server[3]), **more}
    told.setdefault("client_authority", str(papers.authority[2]))
    return whole(plane, OciLayout(folder / "store"), (), server=told, clients=tuple(clients))


def test_the_log_has_the_name_of_the_certificate(plane, papers, tmp_path):
    log = tmp_path / "access.log"
    who = {"bob": "bob", "all": URI.value, "dns": DNS.value, "mail": MAIL.value, "none": ""}
    with serving(plane, papers, tmp_path, access_log=str(log)) as running:
        plug_in(running, twice)
        asker = Asker(running, papers)
        for name in who:
            assert (asker.rest(getattr(papers, name)), asker.rpc(getattr(papers, name))) == (200, 0)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for protocol in ("rest", "grpc"):
        assert [line["client"] for line in lines if line["protocol"] == protocol] == list(who.values())


def test_a_client_without_a_token_is_held_to_its_limits_by_its_certificate(plane, papers, tmp_path):
    bob = ClientSettings(name="bob", rate=0.001, burst=2)
    with serving(plane, papers, tmp_path, [ANN, bob, ClientSettings(name=URI.value)]) as running:
        plug_in(running, twice)
        asker = Asker(running, papers)
        assert (asker.rest(papers.bob), asker.rpc(papers.bob)) == (200, 0)
        assert (asker.rest(papers.bob), asker.rpc(papers.bob)) == (429, 8)
        assert (asker.rest(papers.all), asker.rpc(papers.all)) == (200, 0)


def test_a_certificate_that_names_no_client_needs_a_token(plane, papers, tmp_path):
    with serving(plane, papers, tmp_path, [ANN, ClientSettings(name="bob")]) as running:
        plug_in(running, twice)
        asker = Asker(running, papers)
        assert (asker.rest(papers.carol), asker.rpc(papers.carol)) == (401, 16)
        assert (asker.rest(papers.carol, BEARING), asker.rpc(papers.carol, BEARING)) == (200, 0)


def test_a_client_with_a_token_must_show_it_whatever_its_certificate_says(plane, papers, tmp_path):
    with serving(plane, papers, tmp_path, [ANN]) as running:
        plug_in(running, twice)
        asker = Asker(running, papers)
        assert (asker.rest(papers.ann), asker.rpc(papers.ann)) == (401, 16)
        assert (asker.rest(papers.ann, BEARING), asker.rpc(papers.ann, BEARING)) == (200, 0)


def test_a_token_that_is_nobodys_is_not_made_good_by_a_certificate(plane, papers, tmp_path):
    with serving(plane, papers, tmp_path, [ANN, ClientSettings(name="bob")]) as running:
        plug_in(running, twice)
        asker, wrong = Asker(running, papers), {"authorization": "Bearer wrong"}
        assert (asker.rest(papers.bob, wrong), asker.rpc(papers.bob, wrong)) == (401, 16)


def test_the_name_of_the_token_comes_first(plane, papers, tmp_path):
    log = tmp_path / "access.log"
    clients = [ANN, ClientSettings(name="bob")]
    with serving(plane, papers, tmp_path, clients, access_log=str(log)) as running:
        plug_in(running, twice)
        asker = Asker(running, papers)
        assert (asker.rest(papers.bob, BEARING), asker.rest(papers.bob)) == (200, 200)
    assert [json.loads(line)["client"] for line in log.read_text().splitlines()] == ["ann", "bob"]


def test_a_client_without_a_token_is_refused_where_nobody_shows_a_certificate(papers, tmp_path):
    with (
        pytest.raises(UsageError, match="'bob' has no token"),
        serving("python", papers, tmp_path, [ClientSettings(name="bob")], client_authority=""),
    ):
        pass
