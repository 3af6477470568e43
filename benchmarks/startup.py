"""What it costs to be imported, and to say --help; against MLflow."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from _measure import interleaved, show

BIN = Path(sys.executable).parent
ROUNDS = 5


def seconds(*command: object) -> dict[str, float]:
    start = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return {"seconds": time.perf_counter() - start}


bare, ours, theirs, our_help, their_help = interleaved(
    ROUNDS,
    lambda: seconds(sys.executable, "-c", "pass"),
    lambda: seconds(sys.executable, "-c", "import vitrify"),
    lambda: seconds(sys.executable, "-c", "import mlflow"),
    lambda: seconds(BIN / "vitrify", "--help"),
    lambda: seconds(BIN / "mlflow", "--help"),
)


def row(name: str, figure: dict[str, float], against: str) -> tuple[str, str, str]:
    return name, f"{figure['seconds'] * 1000:.0f} ms", against


above = (ours["seconds"] - bare["seconds"]) * 1000
show(
    f"Start-up (median of {ROUNDS}, interleaved)",
    [
        row("bare interpreter", bare, ""),
        row("import vitrify", ours, f"{above:.0f} ms above the bare interpreter (target: at most 60)"),
        row("import mlflow", theirs, f"{theirs['seconds'] / ours['seconds']:.0f} x ours"),
        row("vitrify --help", our_help, "(target: at most 200 ms)"),
        row("mlflow --help", their_help, f"{their_help['seconds'] / our_help['seconds']:.0f} x ours"),
    ],
)
