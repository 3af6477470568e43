from __future__ import annotations

import subprocess
import sys

_START = """
import asyncio, sys
from pathlib import Path
import numpy as np
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.settings import ModelSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout

async def main():
    engine = ServingEngine(ThreadLane, store=OciLayout(Path(sys.argv[1])))
    await engine.load(ModelSettings(reference="m:1.0"))
    await engine.infer(Infer("m", {"X": np.ones((3, 4), np.float32)}))
    await engine.close()

asyncio.run(main())
print(*sorted(set(sys.argv[2:]) & set(sys.modules)))
"""
HEAVY = ["onnx", "vitrify.checks", "sqlalchemy", "alembic", "pandas", "sklearn", "scipy", "torch", "tensorflow"]


def test_a_model_is_loaded_proven_and_asked_without_any_library_that_it_does_not_need(shelf):
    command = [sys.executable, "-c", _START, str(shelf.root), *HEAVY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode, done.stderr) == ("", 0, "")
