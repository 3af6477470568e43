"""Proving: a version answers nobody before it has answered its golden samples as it did when it was saved.

Then it is asked whether its requests may be put together: batches must give bit for bit what single rows give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import CheckFailedError, ModelError, SignatureError
from vitrify.serve.lanes.proof import batch_proof

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature
    from vitrify.serve.lanes import Batching
    from vitrify.serve.models.opening import Sessions

    Array = np.ndarray[Any, Any]


def prove(artifact: Artifact, sessions: Sessions, batching: Batching) -> tuple[Batching, str]:
    """Replay the golden samples, which warms the model up, and find out how many rows a batch may have.

    Returns:
        How requests become batches from now on, and what one should know about it; empty where all was proven.

    Raises:
        CheckFailedError: The golden samples do not give their golden outputs within the tolerance.
    """
    inputs, expected = artifact.golden()
    if not expected:
        return batching.replace(rows=1), "it has no golden samples: not replayed, not batched"
    if not _the_same(sessions, inputs, expected):
        _replay(artifact, sessions, inputs, expected)
    rows, reason = _rows(artifact.signature, sessions, inputs, batching)
    return batching.replace(rows=rows), reason


def _the_same(sessions: Sessions, inputs: Arrays, expected: Arrays) -> bool:
    """Say whether the golden outputs come again byte for byte; then nobody has to weigh differences."""
    try:
        got = sessions.first.run(inputs)
    except (ModelError, SignatureError):
        return False
    return got.keys() == expected.keys() and all(_same_bytes(got[name], array) for name, array in expected.items())


def _same_bytes(got: Array, expected: Array) -> bool:
    plain = type(got) is np.ndarray and type(expected) is np.ndarray and expected.dtype != object
    alike = plain and (got.dtype, got.shape) == (expected.dtype, expected.shape)
    return alike and got.tobytes() == expected.tobytes()


def _replay(artifact: Artifact, sessions: Sessions, inputs: Arrays, expected: Arrays) -> None:
    """Hold what differs against the tolerance, as ``vitrify verify`` does.

    Raises:
        CheckFailedError: It is outside.
    """
    from vitrify.checks.replay import replay_session  # a fifth of a cold start, which most models do not need

    report = replay_session(sessions.first, inputs, expected)
    if not report.passed:
        msg = f"{artifact} no longer gives its golden outputs here, so it is not served\n{report}"
        raise CheckFailedError(msg, report=report, remedy="see what changed: vitrify verify")


def _rows(signature: Signature, sessions: Sessions, inputs: Arrays, batching: Batching) -> tuple[int, str]:
    """Return how many rows a batch may have, and why it is not as many as wanted."""
    wanted = batching.rows
    if wanted <= 1:
        return 1, ""
    for field in (*signature.inputs, *signature.outputs):
        if not field.batched:
            return 1, f"not batched: {field.name!r} does not start with the batch"
    proof = batch_proof(sessions.run, inputs, signature, wanted, pad=batching.pad)
    if proof.rows < wanted:
        what = f"batches of at most {proof.rows} rows" if proof.rows > 1 else "not batched"
        return proof.rows, f"{what}: {proof.reason}"
    return wanted, ""
