"""The scanners that we are measured against, in an environment of their own: their requirements do not go with ours."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".venv-peers"
PACKAGES = ("picklescan==1.0.5", "modelscan==0.8.8", "fickling==0.1.12", "modelaudit==0.2.54", "numpy==2.4.6")
QUIET = {"CI": "1", "PROMPTFOO_DISABLE_TELEMETRY": "1", "HOME": str(PEERS)}


def ready() -> None:
    """Make the environment if it is not there."""
    if not (PEERS / ".ready").exists():
        venv.create(PEERS, with_pip=True, clear=True)
        subprocess.run([PEERS / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        (PEERS / ".ready").touch()
