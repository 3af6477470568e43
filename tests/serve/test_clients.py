"""Who is let in, and how often."""

import hashlib

import pytest
from plugged import answers, document, exchange, head, plugged
from whole_server import PLANES, whole

from vitrify.core.errors import AuthenticationError, BusyError, DeniedError
from vitrify.serve.clients import Clients
from vitrify.serve.settings import ClientSettings
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import twice


def client(name, token, **options):
    return ClientSettings(name=name, token_sha256=hashlib.sha256(token.encode()).hexdigest(), **options)


def test_without_clients_everybody_may_ask_and_change():
    clients = Clients()
    with clients.enter("") as name:
        assert name == ""
    assert clients.is_admin("")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_token_is_its_client(scheme):
    with Clients((client("shop", "secret"),)).enter(f"{scheme} secret") as name:
        assert name == "shop"


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer wrong", "Basic secret", "secret", "Bearer " + "x" * 5000]
)
def test_nobody_else_is_let_in(header):
    with pytest.raises(AuthenticationError), Clients((client("shop", "secret"),)).enter(header):
        pass


def test_without_clients_nobody_may_change_anything_where_strangers_ask():
    clients = Clients(trusting=False)
    with clients.enter(""), pytest.raises(DeniedError):
        clients.require_admin("")


def test_only_an_admin_may_change_what_is_served():
    clients = Clients((client("shop", "a"), client("ops", "b", admin=True)))
    clients.require_admin("ops")
    for name in ("shop", "", "nobody"):
        with pytest.raises(DeniedError):
            clients.require_admin(name)


def test_a_burst_is_taken_and_the_next_is_told_when_to_come_again():
    clients = Clients((client("shop", "a", rate=0.001, burst=3),))
    for _ in range(3):
        with clients.enter("Bearer a"):
            pass
    with pytest.raises(BusyError) as caught, clients.enter("Bearer a"):
        pass
    assert 0 < caught.value.retry_after <= 1000


def test_so_many_at_a_time_and_no_more():
    clients = Clients((client("shop", "a", concurrent=2), client("other", "b")))
    with clients.enter("Bearer a"), clients.enter("Bearer a"):
        with pytest.raises(BusyError), clients.enter("Bearer a"):
            pass
        with clients.enter("Bearer b"):
            pass
    with clients.enter("Bearer a"):
        pass


def test_another_table_takes_over_and_what_was_used_stays_used():
    clients = Clients((client("shop", "a", rate=0.001, burst=1), client("gone", "g")))
    with clients.enter("Bearer a"):
        pass
    clients.replace((client("shop", "new", rate=0.001, burst=1),))
    with pytest.raises(BusyError), clients.enter("Bearer new"):
        pass
    for header in ("Bearer a", "Bearer g"):
        with pytest.raises(AuthenticationError), clients.enter(header):
            pass


def test_a_client_without_a_token_is_known_by_its_certificate_alone():
    clients = Clients((client("shop", "secret"), ClientSettings(name="web", rate=0.001, burst=1)))
    with clients.enter("", "web") as name:
        assert name == "web"
    with pytest.raises(BusyError), clients.enter("", "web"):
        pass
    with clients.enter("Bearer secret", "web") as name:
        assert name == "shop"
    for authorization, certified in (("", ""), ("", "shop"), ("", "else"), ("Bearer wrong", "web")):
        with pytest.raises(AuthenticationError), clients.enter(authorization, certified):
            pass


def test_where_there_are_no_clients_a_certificate_still_says_who_it_is():
    with Clients().enter("", "web") as name:
        assert name == "web"


def test_what_a_certified_client_has_used_goes_on_when_the_table_changes():
    settings = ClientSettings(name="web", rate=0.001, burst=1)
    clients, told = Clients((settings,)), []
    clients.watch(told.append)
    with clients.enter("", "web"):
        pass
    clients.replace((settings, client("shop", "secret")))
    assert [len(one) for one in told] == [1, 2]
    with pytest.raises(BusyError), clients.enter("", "web"):
        pass


def test_what_a_call_brings_after_it_was_let_in_is_counted_like_another_call():
    clients = Clients((client("shop", "secret", rate=1e-6, burst=3, concurrent=1),))
    with clients.enter("Bearer secret") as name:
        for _ in range(2):
            clients.charge(name)
        with pytest.raises(BusyError, match="more than 1e-06 times a second") as caught:
            clients.charge(name)
        assert caught.value.retry_after > 1
    with pytest.raises(BusyError, match="times a second"), clients.enter("Bearer secret"):
        pass
    clients.charge("nobody")
    Clients().charge("")


@pytest.fixture(scope="module", params=PLANES)
def guarded(request, tmp_path_factory):
    """A server that lets in one client."""
    store, clients = OciLayout(tmp_path_factory.mktemp("store")), (client("shop", "secret"),)
    with whole(request.param, store, (), clients=clients) as running, plugged(running, twice):
        yield running


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v2/models/glass/infer", document(1)),
        ("POST", "/v2/models/glass/infer", b" " * 300_000),
        ("POST", "/v2/models/nobody/infer", document(1)),
        ("POST", "/v1/models/glass:predict", b"{}"),
        ("POST", "/invocations", b"{}"),
        ("GET", "/admin/models", b""),
        ("HEAD", "/v2", b""),
        ("GET", "/nowhere", b""),
        ("DELETE", "/v2/models/glass", b""),
    ],
)
@pytest.mark.parametrize("field", ["authorization: Bearer wrong", "authorization: Basic c2hvcA==", "x-own: 1"])
def test_who_is_not_let_in_is_told_how(guarded, method, path, body, field):
    (status, headers, _), *_ = answers(exchange(guarded.http, head(body, field, path=path, method=method)))
    assert (status, headers["www-authenticate"]) == (401, 'Bearer realm="vitrify"')


def test_who_is_let_in_is_not_asked_who_he_is(guarded):
    found = answers(exchange(guarded.http, head(document(1), "authorization: Bearer secret")))
    assert [(status, "www-authenticate" in headers) for status, headers, _ in found] == [(200, False)]
