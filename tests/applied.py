"""A server's settings, state and engine that become one while it runs: what the tests of that share."""

from __future__ import annotations

import asyncio
import os


class File:
    """A file of settings."""

    def __init__(self, path):
        self.path, self._writes = path, 0

    def write(self, text):
        """Replace it; each time it looks as if a second had passed."""
        self._writes += 1
        self.path.write_text(text)
        os.utime(self.path, ns=(self._writes * 10**9,) * 2)


async def look(rolled, until, true=lambda: True):
    """Look until something is true."""
    async with asyncio.timeout(60):
        while True:
            await asyncio.to_thread(rolled.applying.look)
            if true():
                return
            await asyncio.sleep(0.005)


def ready(rolled):
    return sorted(f"{one.name}:{one.version}" for one in rolled.engine.index() if one.state == "READY")


def said(rolled, event):
    return [facts for what, facts in rolled.said if what == event]
