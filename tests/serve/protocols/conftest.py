"""One server over REST for all tests of its protocols; it takes seconds to save what it serves."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def rest_session():
    from rest_serving import RestServer  # not for the tests of gRPC, which lie here too

    server = RestServer()
    yield server
    server.close()


@pytest.fixture
def rest(rest_session):
    """Return the server; a fault of ours in a test fails that test."""
    rest_session.faults.clear()
    yield rest_session
    assert not rest_session.faults, rest_session.faults
