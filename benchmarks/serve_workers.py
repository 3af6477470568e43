"""What a worker costs: the same model, the same rows, in this process and in one of its own.

python benchmarks/serve_workers.py [--times 2000]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from _measure import machine

import vitrify
from vitrify.serve.models import opening
from vitrify.serve.settings import ModelSettings
from vitrify.serve.workers import open_session

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays, Session

MICROSECONDS = 1e6
ROWS = (1, 32, 1000, 100_000)


def percentiles(session: Session, inputs: Arrays, times: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of one run, in microseconds."""
    took = []
    for number in range(times + times // 10):
        began = time.perf_counter()
        session.run(inputs)
        if number >= times // 10:
            took.append(time.perf_counter() - began)
    half, most = np.percentile(took, [50, 99]) * MICROSECONDS
    return float(half), float(most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2000)
    times = parser.parse_args().times
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VITRIFY_HOME"] = str(Path(folder) / "home")
        from sklearn.linear_model import LinearRegression

        x = np.random.default_rng(0).normal(size=(100, 10))
        artifact = vitrify.save(LinearRegression().fit(x, x.sum(axis=1)), "linear", example=x[:10])
        here = opening.open_session(artifact, ModelSettings(reference="linear", process=False))
        began = time.perf_counter()
        apart = open_session(artifact, ModelSettings(reference="linear", process=True))
        print(f"a worker is up in {time.perf_counter() - began:.2f} s")
        print(f"{'rows':>8} {'here, µs (p99)':>20} {'worker, µs (p99)':>20} {'more, µs':>10}")
        (field,) = artifact.signature.inputs
        for rows in ROWS:
            inputs = {field.name: np.resize(x, (rows, 10))}
            mine, theirs = (percentiles(one, inputs, max(50, times // max(1, rows // 1000))) for one in (here, apart))
            more = theirs[0] - mine[0]
            print(f"{rows:>8} {mine[0]:>11.0f} ({mine[1]:.0f}) {theirs[0]:>11.0f} ({theirs[1]:.0f}) {more:>10.0f}")
        apart.close()


if __name__ == "__main__":
    main()
