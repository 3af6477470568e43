"""Who is slow, or never ends, is let go by the whole server, on either plane, and harms nobody."""

from __future__ import annotations

import threading

import pytest
from plugged import PREFACE, answers, connected, document, exchange, head, plugged, rest_of, well
from whole_server import PLANES, whole

from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.lane_models import twice, until

SECONDS = 2.0
"""For a head, and for a body: of an honest client here, each comes with one call of the system."""
CHUNKED = "transfer-encoding: chunked"
ENDLESS = {
    "a huge chunk": (head(b"ffffffffffffffff\r\n{}", CHUNKED), {400, 413}),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512), {400, 408, None}),
}
"""What a server may wait for the rest of."""


@pytest.fixture(scope="module", params=PLANES)
def hasty(request, tmp_path_factory):
    limits = {"head_seconds": SECONDS, "body_seconds": SECONDS, "idle_seconds": SECONDS}
    store = OciLayout(tmp_path_factory.mktemp("store"))
    with whole(request.param, store, (), server=limits) as running, plugged(running, twice):
        yield running


@pytest.mark.parametrize("case", ENDLESS)
def test_what_never_ends_is_refused(hasty, case):
    sent, expected = ENDLESS[case]
    found = answers(exchange(hasty.http, sent))
    assert (found[0][0] if found else None) in expected
    well(hasty)


def test_who_is_slow_is_let_go(hasty):
    """A head, a body, a chunk and a preface that never end, and a client of HTTP/2 that says no more: all at a time."""
    half = head(document(1))[:-20]
    begun = (
        (hasty.http, b"POST /v2"),
        (hasty.http, head(b"")[:-2]),
        (hasty.http, half),
        (hasty.http, head(b"", CHUNKED) + b"5\r\nab"),
        (hasty.http, head(b"", CHUNKED) + b"1;" + b"x" * 50),
        (hasty.grpc, PREFACE[:9]),
        (hasty.grpc, b""),
        (hasty.http, b""),
    )
    found = [None] * len(begun)

    def stay(at):
        with connected(begun[at][0]) as connection:
            connection.sendall(begun[at][1])
            found[at] = rest_of(connection)

    threads = [threading.Thread(target=stay, args=(at,)) for at in range(len(begun))]
    for thread in threads:
        thread.start()
    well(hasty)
    for thread in threads:
        thread.join()
    assert None not in found
    for text in found[:5]:
        assert [status for status, _, _ in answers(text)] in ([], [400], [408])
    well(hasty)


def test_a_head_that_drips_is_let_go(hasty):
    with connected(hasty.http) as connection:
        connection.settimeout(0.05)
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")

        def closed():
            try:
                connection.sendall(b"x: y\r\n")
                return not connection.recv(1000)
            except TimeoutError:
                return False
            except OSError:
                return True

        until(closed, "the connection was closed although bytes came")
    well(hasty)
