"""Every figure that the README claims: ``make bench``, or ``python benchmarks/run.py forest`` for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _measure import machine

HERE = Path(__file__).parent
ALL = (
    *("startup", "forest", "state", "kill", "looking", "scan", "conversion"),
    *("transfer", "registry", "registry_transfer", "registry_kill", "protect", "watermark"),
    *("serve", "serve_deadline", "serve_memory", "serve_overload"),
)

print(machine(), flush=True)
for name in sys.argv[1:] or ALL:
    subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=True)
