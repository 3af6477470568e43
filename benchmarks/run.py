"""Every figure that the README claims: ``make bench``, or ``python benchmarks/run.py forest`` for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _measure import machine

HERE = Path(__file__).parent
ALL = ("startup", "forest", "state", "kill", "looking", "scan")

print(machine(), flush=True)
for name in sys.argv[1:] or ALL:
    subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=True)
