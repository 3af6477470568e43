"""The order in which requests leave the queue."""

from __future__ import annotations

from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from vitrify.serve.lanes._queue import Queue, Ticket
from vitrify.serve.values import Infer


def ticket(number, rows=1, key="a", priority=0):
    return Ticket(Infer("m", {}, priority=priority), Future(), 0.0, 100.0 + number, rows, 10, number=number, key=key)


def numbers(batch):
    return [piece.ticket.number for piece in batch]


def test_an_empty_queue_gives_an_empty_batch():
    assert Queue(4).take() == []


def test_what_waits_is_counted_by_requests_not_by_pieces():
    queue = Queue(2)
    queue.push(ticket(1, rows=5))
    assert (queue.tickets, queue.bytes, queue.rows) == (1, 10, 5)
    assert [len(queue.take()) for _ in range(2)] == [1, 1]
    assert (queue.tickets, queue.bytes, queue.rows) == (1, 10, 1)
    queue.take()
    assert (queue.tickets, queue.bytes, queue.rows) == (0, 0, 0)


def test_a_request_of_any_number_of_rows_costs_the_queue_the_same():
    queue = Queue(4)
    queue.push(ticket(1, rows=10**15))
    assert [(piece.start, piece.rows) for piece in queue.take()] == [(0, 4)]
    assert queue.rows == 10**15 - 4


def test_a_steady_stream_does_not_starve_another_shape():
    queue = Queue(2)
    queue.push(ticket(0, key="a"))
    queue.push(ticket(1, key="b"))
    left = []
    for number in range(2, 6):
        queue.push(ticket(number, key="a"))
        left.append(numbers(queue.take()))
    assert left[:2] == [[0, 2], [1]]


def test_a_batch_is_due_when_it_is_full_or_when_somebody_else_waits():
    queue = Queue(4)
    assert queue.due()
    queue.push(ticket(1))
    assert not queue.due()
    queue.push(ticket(2, priority=3))
    assert not queue.due()
    other = ticket(3, key="b")
    queue.push(other)
    assert queue.due()
    queue.drop(other)
    assert not queue.due()
    queue.push(ticket(4, rows=2))
    assert queue.due()


def test_what_is_run_by_itself_is_due_at_once():
    queue = Queue(4)
    queue.push(ticket(1, key=None))
    assert queue.due()


def test_dropping_a_request_takes_all_its_pieces():
    queue = Queue(2)
    gone = ticket(1, rows=7)
    queue.push(gone)
    queue.push(ticket(2))
    queue.take()
    queue.drop(gone)
    assert (queue.tickets, queue.rows) == (1, 1)
    assert numbers(queue.take()) == [2]


requests = st.tuples(st.integers(0, 7), st.sampled_from(["a", "b", None]), st.integers(0, 2))


@given(limit=st.integers(2, 5), asked=st.lists(requests, max_size=20), dropped=st.sets(st.integers(0, 19)))
def test_nothing_is_lost_or_given_twice_and_the_oldest_of_the_best_priority_leads(limit, asked, dropped):
    queue = Queue(limit)
    tickets = [ticket(number, rows or 1, key, priority) for number, (rows, key, priority) in enumerate(asked)]
    for one in tickets:
        queue.push(one)
    for number in dropped & set(range(len(tickets))):
        queue.drop(tickets[number])
    waiting = [one for one in tickets if one.number not in dropped]
    assert (queue.tickets, queue.bytes) == (len(waiting), 10 * len(waiting))
    given_out = {one.number: 0 for one in waiting}
    while batch := queue.take():
        lead = min((one for one in waiting if given_out[one.number] < one.rows), key=lambda one: (one.rank, one.number))
        assert batch[0].ticket is lead
        assert len({piece.ticket.key for piece in batch}) == 1
        assert len(batch) == 1 or sum(piece.rows for piece in batch) <= limit
        for piece in batch:
            assert piece.start == given_out[piece.ticket.number]
            given_out[piece.ticket.number] += piece.rows
    assert given_out == {one.number: one.rows for one in waiting}
    assert (queue.tickets, queue.bytes, queue.rows) == (0, 0, 0)
