"""Everything at once: what comes out is right, nothing is lost, nothing comes twice."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError

import numpy as np
import pytest

from vitrify.core.errors import BusyError, ExpiredError, ModelError
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.testing.lane_models import LIMIT, ask, same, spec, twice, until

THREADS = 8
EACH = 400


class Client:
    """One thread's requests, and what became of them."""

    def __init__(self, lane, number):
        self.lane, self.random, self.number = lane, random.Random(number), number
        self.outcomes = Counter()
        self.wrong = []

    def __call__(self):
        try:
            waiting = []
            for index in range(EACH):
                waiting += self.one(index)
                while len(waiting) > self.random.randrange(12):
                    self.settle(*waiting.pop(0))
            for one in waiting:
                self.settle(*one)
        except BaseException as error:  # noqa: BLE001 (a thread's error is seen by nobody else)
            self.wrong.append(error)

    def one(self, index):
        rows = self.random.choice([0, 1, 1, 1, 2, 3, 5, 8, 13])
        values = [self.number * 100_000 + index * 20 + row for row in range(rows)]
        if rows and self.random.random() < 0.03:
            values[-1] = -1
        late = self.random.choice([LIMIT, LIMIT, LIMIT, 0.002, 0.0])
        request = ask(*values, priority=self.random.randrange(4), deadline=time.monotonic() + late)
        try:
            future = self.lane.submit(request)
        except BusyError:
            self.outcomes["BusyError"] += 1
            return []
        if self.random.random() < 0.1:
            future.cancel()
        return [(future, values)]

    def settle(self, future, values):
        try:
            reply = future.result(LIMIT)
        except (CancelledError, ExpiredError, ModelError) as error:
            self.outcomes[type(error).__name__] += 1
            refused = isinstance(error, ModelError)
        else:
            same(reply.outputs, *values)
            assert -1 not in values
            self.outcomes["ok"] += 1
            refused = False
        assert not refused or -1 in values


@pytest.mark.slow
@pytest.mark.parametrize(("instances", "rows"), [(1, 8), (2, 4), (3, 1)])
def test_under_stress_every_answer_is_right_and_everything_is_counted(instances, rows):
    def run(inputs):
        time.sleep(0.0002)
        if (inputs["x"][:, 0] == -1).any():
            raise ZeroDivisionError("a bad row")
        return twice(inputs)

    seen = Counter()
    lane = ThreadLane(
        spec(rows=rows, instances=instances, queue=40, delay_us=500),
        run,
        lambda done: seen.update(np.unique(done.inputs["x"][:, 0]).astype(int).tolist()),
    )
    clients = [Client(lane, number) for number in range(THREADS)]
    threads = [threading.Thread(target=client) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT * 2)
    until(lambda: lane.figures().running == lane.figures().waiting == 0, "everything is done")
    figures = lane.figures()
    lane.close(LIMIT)
    assert [client.wrong for client in clients] == [[]] * THREADS
    total = sum((client.outcomes for client in clients), Counter())
    assert total.total() == THREADS * EACH
    assert dict(total) == {"ok": figures.ok, **figures.failed}
    assert {"ok", "CancelledError", "ExpiredError", "ModelError"} <= set(total)
    assert max(seen.values()) == 1
    assert not lane._live
    assert not lane._batches
    assert (lane._queue.rows, lane._queue.bytes, lane._running) == (0, 0, 0)
    assert not any(thread.is_alive() for thread in lane._threads)
