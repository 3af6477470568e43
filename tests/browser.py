"""A real Chromium that opens a page, runs a script in it, and says what the script returned.

It is driven over two pipes, so no port is taken and no client library is needed.

Source: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager
from itertools import count

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


class Browser:
    """One tab.

    Args:
        ask: The pipe that the browser reads.
        hear: The pipe that it writes.
    """

    def __init__(self, ask, hear):
        self._ask, self._hear, self._numbers, self.said = ask, hear, count(1), []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Runtime.enable")
        self._call("Log.enable")
        self._call("Page.enable")

    def open(self, url):
        """Open a page, and wait until it is there."""
        self._call("Page.navigate", url=url)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def resize(self, width, height):
        """Give the tab another size, in pixels."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def run(self, script):
        """Return what a script gives; a promise is waited for."""
        done = self._call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, condition):
        """Wait until a condition, in JavaScript, holds; what the page shows otherwise is said after two minutes."""
        look = f"if ({condition}) done(true); else if (Date.now() > last) done(false); else setTimeout(look, 20);"
        wait = f"const last = Date.now() + 120000, look = () => {{ {look} }}; look();"
        assert self.run(f"new Promise((done) => {{ {wait} }})"), (condition, self.run("document.body.innerText"))

    def _call(self, method, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if not method.startswith("Target."):
            message["sessionId"] = self._session
        self._ask.write(json.dumps(message).encode() + b"\0")
        self._ask.flush()
        while (answer := self._next()).get("id") != number:
            pass
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _next(self):
        message = bytearray()
        while (byte := self._hear.read(1)) != b"\0":
            assert byte, "the browser has gone"
            message += byte
        said = json.loads(message)
        if said.get("method") == "Log.entryAdded":
            self.said.append(said["params"]["entry"])
        assert said.get("method") != "Runtime.exceptionThrown", said["params"]["exceptionDetails"]["exception"]
        return said


@contextmanager
def browser(folder):
    """Run a browser with a profile of its own; ``said`` of what it yields holds every complaint of its pages."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    command = [CHROMIUM, *_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    script = 'exec "$@" 3<&"$IN" 4>&"$OUT"'
    with (
        os.fdopen(ours_out, "wb") as ask,
        os.fdopen(ours_in, "rb") as hear,
        subprocess.Popen(
            ["bash", "-c", script, "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            env={**os.environ, "IN": str(theirs_in), "OUT": str(theirs_out)},
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            yield Browser(ask, hear)
        finally:
            process.kill()
