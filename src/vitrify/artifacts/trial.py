"""The clean-process trial: what was just written is opened as production will open it, before it is committed.

A new interpreter, isolated from the working directory, ``PYTHONPATH`` and this process's state, opens the
staged files and predicts the golden samples. That shows that nothing is missing, that the predictions are the
same, and, by the modules it had to import, what the model needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core import arrays as npz
from vitrify.core.document import Environment
from vitrify.core.errors import CheckFailedError
from vitrify.core.progress import track
from vitrify.core.report import Finding, Report
from vitrify.core.wire import to_builtins

if TYPE_CHECKING:
    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Files

_NUMERIC_NOISE = 1e-6
"""Relative difference that two runs of one native model may show (threads add in another order)."""


@dataclass(frozen=True)
class Trial:
    """What the trial saw.

    Attributes:
        environment: The distributions that were imported.
        report: ``clean``, with ``bit_equal`` in its details; a trial that fails raises instead.
        seconds: Wall-clock time of the whole trial.
    """

    environment: Environment
    report: Report
    seconds: float


def run(files: Files, document: Document, golden: tuple[Arrays, Arrays], allow: Allow, *, read: bool = True) -> Trial:
    """Open and predict in a clean process.

    Args:
        files: The staged files, golden samples and bundled code among them.
        document: What they mean.
        golden: The golden inputs and outputs; both empty where there are none.
        allow: The names that the caller, whose own model this is, allows.
        read: Whether to make a live model of the files; else they are only described.

    Raises:
        CheckFailedError: The process could not open it, or predicted otherwise.
    """
    started = time.monotonic()
    with track("trying it in a clean process"), tempfile.TemporaryDirectory(prefix="vitrify-trial-") as folder:
        result = Path(folder, "outputs.npz")
        answer = _ask(files, document, allow, result, read=read)
        outputs = npz.load(result.read_bytes(), where="trial outputs") if result.exists() else {}
    report = _compare(golden[1], outputs)
    if not report.passed:
        msg = f"the model predicts otherwise when it is loaded in a clean process; nothing was saved\n{report}"
        remedy = (
            "make predictions deterministic (fix seeds), and keep all state in the model itself; the file of a model"
            " that has to draw at random can be packed without an example, then converted with --stochastic"
        )
        raise CheckFailedError(msg, report=report, remedy=remedy)
    environment = Environment.from_builtins(answer["environment"], where="trial")
    return Trial(environment, report, time.monotonic() - started)


def _ask(files: Files, document: Document, allow: Allow, result: Path, *, read: bool) -> dict[str, Any]:
    request = {
        "files": {name: str(files.path(name)) for name in files.names()},
        "document": to_builtins(document),
        "allow": sorted(allow.names),
        "result": str(result),
        "read": read,
    }
    command = [sys.executable, "-I", "-m", "vitrify.artifacts._clean_process"]
    done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, check=False)  # noqa: S603 (this interpreter)
    lines = done.stdout.splitlines()
    answer: dict[str, Any] = json.loads(lines[-1]) if done.returncode == 0 and lines else {}
    if "environment" not in answer:
        cause = answer.get("error") or _last_lines(done.stderr) or f"it ended with status {done.returncode}"
        report = Report(check="trial", verdict="found", findings=(Finding(place="clean process", message=cause),))
        msg = f"the model cannot be opened in a clean process, so nothing was saved: {cause}"
        remedy = "move what is missing into an importable module (its source is bundled) or an installed package"
        raise CheckFailedError(msg, report=report, remedy=remedy)
    return answer


def _last_lines(stderr: bytes, count: int = 3) -> str:
    return " | ".join(stderr.decode(errors="replace").strip().splitlines()[-count:])


def _compare(expected: Arrays, given: Arrays) -> Report:
    differences = {name: _difference(array, given.get(name)) for name, array in expected.items()}
    findings = tuple(Finding(place=f"output {name!r}", message=text) for name, (text, _) in differences.items() if text)
    details = {"bit_equal": all(equal for _, equal in differences.values())}
    return Report(check="trial", verdict="found" if findings else "clean", findings=findings, details=details)


def _difference(expected: np.ndarray[Any, Any], given: np.ndarray[Any, Any] | None) -> tuple[str, bool]:
    """Return what is wrong with an output ("" where nothing is), and whether it is equal to the bit."""
    if given is None or given.shape != expected.shape or given.dtype != expected.dtype:
        shown = "nothing" if given is None else f"{given.dtype}{list(given.shape)}"
        return f"{shown} instead of {expected.dtype}{list(expected.shape)}", False
    unequal = (given != expected) & ((given == given) | (expected == expected))  # noqa: PLR0124 (NaN is unequal to itself)
    if not np.any(unequal):
        return "", True
    if expected.dtype.kind in "fc":
        error = np.abs(given[unequal] - expected[unequal])
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        if np.all(error <= _NUMERIC_NOISE * largest):
            return "", False
    return f"{np.count_nonzero(unequal)} of {expected.size} values differ", False
