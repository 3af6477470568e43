"""Who is let in, and how often."""

import hashlib

import pytest

from vitrify.core.errors import AuthenticationError, BusyError, DeniedError
from vitrify.serve.clients import Clients
from vitrify.serve.settings import ClientSettings


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
