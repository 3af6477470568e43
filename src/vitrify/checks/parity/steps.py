"""Steps: models with a memory, compared over several calls in a row.

A memory is either inside the model (its session can ``reset`` it) or goes in and out: an output of one call is an
input of the next. The rounding of one step goes into the next, so what is allowed grows with their number (linearly:
the error of a stable recurrence; N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.checks.parity import rows
from vitrify.checks.parity.asking import per_row, run
from vitrify.checks.parity.measure import differ, errors
from vitrify.core.errors import ModelError, SignatureError, UsageError
from vitrify.core.protocols import Stateful
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.checks.parity.tolerance import Bound
    from vitrify.core.protocols import Arrays, Session
    from vitrify.core.signature import Signature

STEPS = 12
"""Calls in a row."""


class Fresh:
    """A session that forgets before every call, so that rows and calls do not depend on each other."""

    def __init__(self, session: Session) -> None:
        """Wrap a session that may have a memory."""
        self._session = session
        self.signature = session.signature

    def run(self, inputs: Arrays) -> Arrays:
        """Predict as if it were the first call."""
        reset(self._session)
        return self._session.run(inputs)

    def predict(self, data: Any) -> Arrays:
        """Predict from any container, as if it were the first call."""
        reset(self._session)
        return self._session.predict(data)

    def close(self) -> None:
        """Let go of the model."""
        self._session.close()


def reset(session: Session) -> None:
    """Let a session forget, if it remembers."""
    if isinstance(session, Stateful):
        session.reset()


def require(signature: Signature, state: Mapping[str, str]) -> None:
    """Refuse a state that the model does not have.

    Raises:
        UsageError: A name is no input or no output.
    """
    inputs, outputs = ([field.name for field in fields] for fields in (signature.inputs, signature.outputs))
    for name, source in state.items():
        if name not in inputs or source not in outputs:
            msg = f"state {name}={source}: expected an input ({', '.join(inputs)}) and an output ({', '.join(outputs)})"
            raise UsageError(msg)


def compare(
    candidate: Session, source: Session, samples: Arrays, bounds: Mapping[str, Bound], state: Mapping[str, str]
) -> tuple[list[Finding], dict[str, Any]]:
    """Let both make the same calls in a row, and hold every answer against the other's.

    Args:
        candidate: The model to be proven.
        source: The model that is right by definition.
        samples: Input rows by name.
        bounds: What is allowed in the first step.
        state: Input to the output whose last value it takes.

    Returns:
        What was found, and the figures.
    """
    rowwise = source.signature.batched
    found: list[Finding] = []
    largest: dict[str, float] = {}
    for session in (candidate, source):
        reset(session)
    memories: tuple[Arrays, Arrays] = ({}, {})
    for step, call in enumerate(_calls(samples, rowwise=rowwise), start=1):
        try:
            got, expected = (
                run(one, {**call, **memory}) for one, memory in zip((candidate, source), memories, strict=True)
            )
        except (ModelError, SignatureError) as error:
            found.append(
                Finding(place=f"step {step} of {STEPS}", message=f"one of the two refuses it: {error.message}")
            )
            break
        memories = _memory(state, got), _memory(state, expected)
        for name, array in expected.items():
            problem, error_ = _difference(got.get(name), array, bounds.get(name), step)
            largest[name] = max(largest.get(name, 0.0), error_)
            if problem:
                found.append(Finding(place=f"output {name!r}, step {step} of {STEPS}", message=problem))
        if found:
            break
    return found, {"calls": STEPS, "state": dict(state), "absolute": rows.plain(largest)}


def _memory(state: Mapping[str, str], answer: Arrays) -> Arrays:
    return {name: answer[output] for name, output in state.items()}


def _calls(samples: Arrays, *, rowwise: bool) -> Iterator[Arrays]:
    """Yield the inputs of each call: a row after the other, or the samples scaled a little, call by call."""
    count = rows.count(samples)
    for step in range(STEPS):
        if rowwise:
            yield rows.take(samples, [step % count])
        else:
            yield {
                name: array * array.dtype.type(1 - step / (2 * STEPS)) if array.dtype.kind == "f" else array
                for name, array in samples.items()
            }


def _difference(got: Any, expected: Any, bound: Bound | None, step: int) -> tuple[str, float]:
    if got is None or got.shape != expected.shape:
        return f"{'nothing' if got is None else list(got.shape)} instead of {list(expected.shape)}", 0.0
    pair = per_row(got, rowwise=False), per_row(expected, rowwise=False)
    if bound is None:
        return ("is not equal" if differ(*pair).any() else ""), 0.0
    measured = errors(*pair, bound)
    worst = float(measured.absolute.max(initial=0.0))
    excess = float(measured.excess.max(initial=0.0))
    return (
        f"is off by {worst:.3g}, {excess / step:.1f} times what {step} step(s) allow" if excess > step else ""
    ), worst
