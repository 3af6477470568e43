"""Clients that cannot share a process: each registers messages of the same names, with its own idea of them."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(source, *arguments):
    """Run a client in a process of its own; what it asserts has to hold."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(source), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
