"""A server under load: what it refuses, what it never loses, and whom it lets nobody harm."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from loaded_server import LIMIT, Crowd, Recorder, Rest, Rpc, loaded, seal_graph, store, until

MIB = 1 << 20
LEFT = {"closed", "CANCELLED"}
"""What a client sees whose request came when nobody read any more; gRPC's own server for Python cancels such."""
REFUSED = {429, 503, "RESOURCE_EXHAUSTED", "UNAVAILABLE"}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(params=["python", "native"])
def plane(request):
    return request.param


@pytest.fixture
def recorder(tmp_path):
    return Recorder(tmp_path)


def test_ten_times_too_much_is_refused_and_takes_no_memory(tmp_path, plane, recorder):
    recorder.seal(store(tmp_path), seconds=0.005)
    with (
        loaded(tmp_path, plane, batching={"rows": 2, "queue": 2, "delay_us": 0}) as server,
        Crowd(server, count=40) as crowd,
    ):
        crowd.more(100)
        recorder.close()  # so that too much comes, however slow the crowd is
        until(lambda: {429, "RESOURCE_EXHAUSTED"} <= set(crowd.statuses()), "both are refused")
        recorder.open()
        before = server.memory()
        crowd.more(2000, 429)
        assert server.memory() < before + 8 * MIB, "not even 4 KiB are kept of what was refused"
        crowd.more(100)
        assert set(crowd.statuses()) <= {200} | REFUSED
        refused = [one for one in crowd.said.copy().values() if one[0] == 429]
        assert all(int(headers["retry-after"]) >= 1 for _, _, headers in refused)
    ran = recorder.ran()
    assert set(ran.values()) == {1}, "each is run once"
    assert set(ran) == crowd.answered(), "what is refused is not run, and what is run is answered"
    assert all(crowd.said[number][1] == 2.0 * number for number in crowd.answered())


def full(server, recorder, ask, pool, queue):
    """Fill the server behind its closed gate; return the futures of what it has accepted, all of them."""
    recorder.close()
    first = pool.submit(ask, 0)
    until(lambda: 0 in recorder.ran(), "the first is run")
    waiting = {number: pool.submit(ask, number) for number in range(1, 3 * queue)}
    until(lambda: sum(one.done() for one in waiting.values()) == 2 * queue - 1, "what is too much is refused")
    assert {one.result()[0] for one in waiting.values() if one.done()} <= REFUSED
    return {0: first, **{number: one for number, one in waiting.items() if not one.done()}}


@pytest.mark.parametrize("client", [Rest, Rpc])
def test_sigterm_loses_nothing_that_waits(tmp_path, plane, recorder, client):
    recorder.seal(store(tmp_path))
    queue = 8

    def ask(number):
        asking = client(server.http if client is Rest else server.grpc)
        try:
            return asking(number)
        finally:
            asking.close()

    with (
        loaded(tmp_path, plane, batching={"rows": 1, "queue": queue}) as server,
        ThreadPoolExecutor(3 * queue) as pool,
    ):
        accepted = full(server, recorder, ask, pool, queue)
        server.process.terminate()
        until(lambda: "draining" in server.events(), "it says that it ends")
        recorder.open()
        assert {number: one.result()[:2] for number, one in accepted.items()} == {
            number: (200, 2.0 * number) for number in accepted
        }
        assert server.process.wait(LIMIT) == 0
    assert set(recorder.ran()) == set(accepted)


def test_sigterm_under_load_answers_all_that_it_runs(tmp_path, plane, recorder):
    recorder.seal(store(tmp_path), seconds=0.002)
    with loaded(tmp_path, plane, batching={"rows": 4}) as server, Crowd(server) as crowd:
        crowd.more(100)
        server.process.terminate()
        assert server.process.wait(LIMIT) == 0
    assert set(recorder.ran()) == crowd.answered()
    assert set(crowd.statuses()) <= {200} | REFUSED | LEFT


def test_sigterm_under_load_sends_every_answer_that_it_logs(tmp_path, plane):
    seal_graph(store(tmp_path))
    log = tmp_path / "access.jsonl"
    with loaded(tmp_path, plane, access_log=str(log)) as server, Crowd(server) as crowd:
        crowd.more(300)
        server.process.terminate()
        assert server.process.wait(LIMIT) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    found = Counter((line["protocol"], line["status"]) for line in lines)
    assert sum(count for (_, status), count in found.items() if status in {0, 200}) == len(crowd.answered()), found
    assert set(crowd.statuses()) <= {200} | REFUSED | LEFT


def test_a_reload_under_load_drops_nothing(tmp_path, plane, recorder):
    shelf = store(tmp_path)
    recorder.seal(shelf)
    with loaded(tmp_path, plane, batching={"rows": 4, "queue": 64}) as server, Crowd(server) as crowd:
        crowd.more(50)
        for factor in (3.0, 4.0, 5.0):
            recorder.seal(shelf, factor)
            status, said = server.post("/v2/repository/models/recorder/load")
            assert status == 200, said
            known = max(crowd.said.copy())
            crowd.more(50)
            later = {number: one for number, one in crowd.said.copy().items() if number > known + crowd.count}
            assert all(one[1] == factor * number for number, one in later.items())
    assert set(crowd.statuses()) == {200}
    for number, (_, value, _) in crowd.said.items():
        assert value in {factor * number for factor in (2.0, 3.0, 4.0, 5.0)}


@pytest.mark.parametrize("client", [Rest, Rpc])
def test_a_request_whose_deadline_has_passed_is_answered_at_once_and_never_run(tmp_path, plane, recorder, client):
    recorder.seal(store(tmp_path))
    expired = range(100, 108)
    with loaded(tmp_path, plane, batching={"rows": 4}) as server, ThreadPoolExecutor(9) as pool:
        address = server.http if client is Rest else server.grpc

        def ask(number, headers=None):
            asking = client(address)
            try:
                return asking(number, headers)
            finally:
                asking.close()

        recorder.close()
        first = pool.submit(ask, 0)
        until(lambda: 0 in recorder.ran(), "the first is run")
        late = [pool.submit(ask, number, {"x-request-timeout-ms": "50"}) for number in expired]
        assert {one.result()[0] for one in late} <= {504, "DEADLINE_EXCEEDED"}, "while the model is still busy"
        recorder.open()
        assert first.result()[:2] == (200, 0.0)
        assert ask(1)[:2] == (200, 2.0)
    assert set(recorder.ran()) == {0, 1}


def test_half_requests_and_clients_that_leave_harm_nobody(tmp_path, plane, recorder):
    recorder.seal(store(tmp_path), seconds=0.001)
    with (
        loaded(tmp_path, plane, head_seconds=5.0, body_seconds=5.0) as server,
        Crowd(server) as crowd,
        contextlib.ExitStack() as opened,
    ):
        host, port = server.http.split(":")
        body = b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [-9, 0]}]}'
        whole = b"POST /v2/models/recorder/infer HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        cuts = (10, len(whole) - 1, len(whole))
        slow = [opened.enter_context(socket.create_connection((host, int(port)), LIMIT)) for _ in range(60)]
        for at, one in enumerate(slow):
            one.sendall(whole[: cuts[at % 3]])
        for one in slow[:30]:
            one.close()
        crowd.more(200)
        for one in (one for at, one in enumerate(slow) if at >= 30 and at % 3 != 2):
            said = b"".join(iter(lambda one=one: _read(one), b""))
            assert not said or said.split()[1] in {b"400", b"408"}, said
        crowd.more(100)
        assert set(crowd.statuses()) == {200}


def _read(connection):
    try:
        return connection.recv(4096)
    except ConnectionResetError:
        return b""


def test_one_of_several_processes_is_killed_and_comes_back(tmp_path, plane, recorder):
    recorder.seal(store(tmp_path))

    def serving():
        return {one for one in server.children() if _parent(one) == server.process.pid}

    with loaded(tmp_path, plane, processes=2) as server, Crowd(server) as crowd:
        crowd.more(100)
        before = serving()
        assert len(before) == 2
        orphans = {one for one in server.children() if _parent(one) == min(before)}
        os.kill(min(before), signal.SIGKILL)
        until(lambda: len(serving() - {min(before)}) == 2, "there are two again")
        until(lambda: not any(Path(f"/proc/{one}").exists() for one in orphans), "its workers ended with it")
        crowd.more(200)
        assert set(crowd.statuses()) <= {200, "UNAVAILABLE"} | LEFT
        assert max(crowd.breaks.values()) <= 2, "each client lost what the killed one held, and was answered again"
        server.process.terminate()
        assert server.process.wait(LIMIT) == 0


def _parent(process):
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def test_a_crowd_that_connects_and_leaves_is_not_kept(tmp_path, plane, recorder):
    """Connections are given back: thousands of them, more than may be open at a time."""
    recorder.seal(store(tmp_path))
    with loaded(tmp_path, plane, connections=32) as server:
        done = threading.Barrier(8)

        def visit(at):
            for number in range(25):
                client = Rest(server.http) if at % 2 else Rpc(server.grpc)
                assert client(1000 * at + number)[0] in {200, 503, "closed", "UNAVAILABLE"}
                client.close()
            done.wait(LIMIT)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(visit, range(8)))
        for client in (Rest(server.http), Rpc(server.grpc)):
            assert client(1)[:2] == (200, 2.0)
            client.close()
