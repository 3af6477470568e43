from __future__ import annotations

import subprocess
import sys

import pytest
from served_models import multiplier

from vitrify.stores.oci_layout import OciLayout

SIZE = 20_000_000
_CYCLES = """
import asyncio, sys
from pathlib import Path
import numpy as np
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.engine import ServingEngine
from vitrify.serve.settings import ModelSettings
from vitrify.serve.values import Infer
from vitrify.stores.oci_layout import OciLayout

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

async def main():
    engine = ServingEngine(ThreadLane, store=OciLayout(Path(sys.argv[1])))
    for cycle in range(20):
        await engine.load(ModelSettings(reference="large"))
        loaded = resident()
        await engine.infer(Infer("large", {"X": np.ones((3, 4), np.float32)}))
        await engine.unload("large")
        print(resident(), loaded)
    await engine.close()

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much memory is resident")
def test_loading_and_unloading_twenty_times_returns_the_memory(tmp_path):
    multiplier(OciLayout(tmp_path), "large", 2, weights=SIZE // 4)
    done = subprocess.run([sys.executable, "-c", _CYCLES, str(tmp_path)], capture_output=True, text=True, check=True)
    sizes = [[int(size) for size in line.split()] for line in done.stdout.splitlines()]
    unloaded = [size for size, _ in sizes]
    assert len(unloaded) == 20
    assert sizes[5][1] - sizes[5][0] > SIZE / 2, sizes  # most of what a loaded model holds is given back
    assert unloaded[-1] - unloaded[2] < SIZE, sizes  # of seventeen models, not even one was kept
