"""What the benchmarks share: work in processes of their own, medians of interleaved rounds, one table."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

PRELUDE = """
import json, os, sys, time
from pathlib import Path
def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")
def peak():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
def resident():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))
def settle():
    os.sync()  # what other rounds left to the disk is not ours to wait for
    time.sleep(0.5)
def report(**figures):
    print("\\n" + json.dumps(figures))
"""


def child(
    code: str, *arguments: object, folder: Path, flags: tuple[str, ...] = (), python: str | Path = sys.executable
) -> dict[str, float]:
    """Run code in a new interpreter; it calls ``report(name=value)`` once, at its end."""
    environment = {**os.environ, "VITRIFY_HOME": str(folder / "home"), "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [str(python), *flags, "-c", PRELUDE + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.strip().splitlines()[-1])


def interleaved(rounds: int, *works) -> list[dict[str, float]]:
    """Call each in turn, ``rounds`` times; return the median of every figure, and the ``best`` seconds."""
    seen = [[work() for work in works] for _ in range(rounds)]
    return [
        {
            **{key: median(figures[key] for figures in column) for key in column[0]},
            "best": min(figures["seconds"] for figures in column),
        }
        for column in zip(*seen, strict=True)
    ]


def scratch() -> tempfile.TemporaryDirectory:
    """Return a temporary directory on the disk of the working directory, not in memory."""
    return tempfile.TemporaryDirectory(dir=Path.cwd(), prefix="bench-")


def machine() -> str:
    """Return one line about where the figures come from."""
    processors = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in processors if "model name" in line), "?")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{os.cpu_count()} cores ({model}), {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"
    )


def show(title: str, rows: list[tuple[str, str, str]]) -> None:
    """Print a table of what, how much, and against what."""
    print(f"\n{title}")
    width = max(len(name) for name, _, _ in rows)
    for name, value, against in rows:
        print(f"  {name:<{width}}  {value:>12}  {against}")


SMALL_CNN = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(), torch.nn.Linear(16, 10),
).eval()
"""
"""Code that makes the small network of several benchmarks, as ``model``."""
