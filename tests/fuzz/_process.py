"""A fuzz target in a process of its own, so that what kills that is told as one more failure."""

from __future__ import annotations

import faulthandler
import multiprocessing
from importlib import import_module

from fuzz import _run

PATIENCE = 300
"""Seconds beyond its share that a process may take: it makes its honest files first."""


def in_a_process(name, seconds, seed):
    """Run one target for so long, and return what happened."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    number = context.Value("q", -1)
    process = context.Process(target=child, args=(name, seconds, seed, sender, number))
    process.start()
    sender.close()
    outcome = None
    try:
        if receiver.poll(seconds + PATIENCE):
            outcome = receiver.recv()
    except EOFError:
        pass
    if outcome is None:
        process.kill()
    process.join()
    return outcome or dead(name, seed, number.value, process.exitcode)


def child(name, seconds, seed, sender, number):
    """Run one target and send what happened."""
    faulthandler.enable()

    def told(index):
        number.value = index

    sender.send(_run.run(import_module(f"fuzz.{name}"), seconds, seed, told=told))


def dead(name, seed, number, status):
    """Return the outcome of a run whose process did not live to tell it."""
    target = import_module(f"fuzz.{name}")
    case = _run.make(target, target.seeds(), seed, number) if number >= 0 else _run.Case("nothing yet", {})
    problem = f"input {number} ended the process, or it had to be ended (status {status})"
    return _run.Outcome(inputs=number + 1, failures={problem: (case, problem)})
