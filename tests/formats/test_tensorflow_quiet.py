"""What TensorFlow's native code writes to the screen is kept off it, and what others write is not."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import vitrify
from vitrify.formats._tensorflow.quiet import mute

SOURCE = Path(vitrify.__file__).parent
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
ALOUD = {"tensorflow": "_tensorflow/loaded.py", "keras": "_keras/loaded.py", "tf2onnx": "convert/_tf2onnx.py"}


def imported(path):
    """Return the packages that a module imports as it is imported itself."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for one in (*getattr(node, "body", ()), node) if isinstance(node, ast.With) else (node,):
            if isinstance(one, ast.Import):
                yield from (name.name.partition(".")[0] for name in one.names)
            if isinstance(one, ast.ImportFrom):
                yield (one.module or "").partition(".")[0]


@pytest.mark.parametrize("package", ALOUD)
def test_what_speaks_when_it_is_imported_is_imported_in_one_place(package):
    found = [path for path in SOURCE.rglob("*.py") if package in imported(path)]
    assert [path.as_posix().endswith(ALOUD[package]) for path in found] == [True]


def test_threads_that_are_mute_at_the_same_time_end_in_any_order(tmp_path):
    kept = os.dup(2)
    try:
        with (tmp_path / "screen").open("wb") as screen:
            os.dup2(screen.fileno(), 2)
        first, second = mute(), mute()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        os.write(2, b"dropped")
        second.__exit__(None, None, None)
        os.write(2, b"kept")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    assert (tmp_path / "screen").read_bytes() == b"kept"


@pytest.mark.slow
@pytest.mark.parametrize("example", [X.astype(np.float32), X], ids=["made", "refused"])
def test_a_conversion_through_tensorflow_writes_nothing_but_what_vitrify_says(example, store):
    vitrify.save(LogisticRegression().fit(X, X[:, 0] > 0), "m", example=example)
    options = ["--precision", "float32"] if example.dtype == np.float32 else []
    command = [
        sys.executable,
        "-c",
        "from vitrify.cli import main; main()",
        "convert",
        "m",
        "--to",
        "tflite",
        "--json",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if options:
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)
    else:
        assert done.stdout == ""
        assert json.loads(done.stderr)["error"] == "UnsupportedModelError"
