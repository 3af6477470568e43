"""Trials without the wait for imports: their clean processes are forked from ones that imported what they would.

A trial starts an interpreter that knows nothing of the process that saved, and most of its time goes by in importing
scikit-learn or PyTorch. Here an isolated interpreter imports that once, does nothing else, and forks a process for each
trial: which is as clean, opens the same files, and is asked and answers in the same way. What was imported beforehand
is only what that trial imports in any case, so that the environment it tells is the same
(``tests/artifacts/test_warm_trials.py``). Trials on a plugin's runtime start an interpreter, as outside of tests,
and so do those of tests that are marked ``cold``. Whole scripts are run likewise, and so are the trials in them.
"""

from __future__ import annotations

import array
import gc
import importlib
import io
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import tempfile
import traceback
import zipfile
from pathlib import Path

from vitrify.core.catalog import catalog

COMMAND = ["-I", "-m", "vitrify.artifacts._clean_process"]
MOST = 4
"""Warm interpreters at a time: each holds some hundred megabytes."""
BY_FORMAT = {"catboost": "catboost", "hugging-face": "torch", "lightgbm": "lightgbm", "xgboost": "xgboost"}
"""What the reader of a format imports, whatever is in the file."""
BY_MENTION = {"catboost": "catboost", "lightgbm": "lightgbm", "sklearn": "sklearn.base", "xgboost": "xgboost"}
"""What is imported for a skops file or a pickle with a class of such a package."""
SCRIPTS = ("pandas", "sklearn.linear_model", "vitrify")
"""What is imported for a script, which may import more."""
ESTIMATORS = ("sklearn.base", "vitrify.runtimes.estimator")
"""What the trials of most scripts import: one interpreter does it for all of them."""
_CLASS = b" %s "


class WarmTrials:
    """Has :func:`run` as ``subprocess`` has it, for the one command of trials."""

    def __init__(self):
        self._templates = {}

    def run(self, command, *, input, capture_output, check):  # noqa: A002 (its name in subprocess)
        """Run a trial and return what ``subprocess.run`` would."""
        modules = _modules(json.loads(input)) if command[1:] == COMMAND else None
        if modules is None:
            return subprocess.run(command, input=input, capture_output=capture_output, check=check)
        return self._forked(modules, command, input, {"cwd": str(Path.cwd()), "environ": dict(os.environ)})

    def script(self, path, folder, environment):
        """Run a script in a folder, as ``python path`` does, and return what ``subprocess.run`` would."""
        place = {"cwd": str(folder), "environ": environment, "script": str(path)}
        return self._forked(SCRIPTS, [sys.executable, str(path)], b"", place)

    def _forked(self, modules, command, given, place):
        template = self._templates.pop(modules, None) or _Template(modules)  # another thread makes one of its own
        try:
            done = template.run(command, given, place)
        except BaseException:
            template.kill()
            raise
        if other := self._templates.pop(modules, None):
            other.close()
        self._templates[modules] = template  # the last used one is the last
        if len(self._templates) > MOST:
            self._templates.pop(next(iter(self._templates))).close()
        return done

    def warm(self, modules):
        """Start an interpreter for trials that import these modules, before there is one."""
        self._templates[modules] = _Template(modules)

    def close(self):
        """End the warm interpreters."""
        while self._templates:
            self._templates.popitem()[1].close()


class _Template:
    def __init__(self, modules):
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-I", __file__, str(theirs.fileno()), *modules]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL)

    def run(self, command, given, place):
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin.write(json.dumps(place).encode() + b"\n" + given)
            stdin.seek(0)
            descriptors = array.array("i", [stdin.fileno(), out.fileno(), err.fileno()])
            self._socket.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            answer = self._socket.recv(16)
            assert answer, "the warm interpreter ended"
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, int(answer), out.read(), err.read())

    def close(self):
        self._socket.close()
        self._process.wait()

    def kill(self):
        self._process.kill()
        self.close()


def _modules(request):
    """Return what a trial imports in any case, sorted; or None, where nobody knows."""
    document = request["document"]
    if not request["read"] or document["runtime"] is None:
        return ()
    target = catalog().row("runtime", document["runtime"]).target
    if not target.startswith("vitrify."):
        return None  # a plugin's, which may be one of this test's alone
    modules, format_ = {target.partition(":")[0]}, document["format"]
    if format_ in BY_FORMAT:
        modules.add(BY_FORMAT[format_])
    if format_ in ("skops", "pickle"):
        mentioned = b"".join(_mentions(Path(path)) for path in request["files"].values())
        modules |= {module for name, module in BY_MENTION.items() if _CLASS % name.encode() in mentioned}
    return tuple(sorted(modules))


def _mentions(path):
    """Return the packages of the classes in a skops file or a pickle, each as ``_CLASS`` has it."""
    data = path.read_bytes()
    if path.suffix == ".skops":
        with zipfile.ZipFile(path) as archive:
            data = archive.read("schema.json")
    return b"".join(_CLASS % name for name in set(re.findall(rb'(?:"__module__":"|\x8c.)(\w+)\.', data, re.DOTALL)))


def _serve(channel, modules):
    """Import, then fork a process for each request, until nobody is there to ask."""
    clean_process = importlib.import_module("vitrify.artifacts._clean_process")
    for module in modules:
        importlib.import_module(module)
    trials = WarmTrials()
    if modules == [*SCRIPTS]:
        trials.warm(ESTIMATORS)  # every script's process has this end of it
    gc.freeze()
    while True:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 3)
        if len(descriptors) != 3:
            return
        if pid := os.fork():
            for descriptor in descriptors:
                os.close(descriptor)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            channel.send(str(status).encode())
            continue
        channel.close()
        os._exit(_answer(clean_process.main, trials, descriptors))


def _answer(main, trials, descriptors):
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    with open(0, "rb", closefd=False) as given:
        place = json.loads(given.readline())
        sys.stdin = io.TextIOWrapper(io.BytesIO(given.read()), encoding="utf-8")
    os.chdir(place["cwd"])
    os.environ.clear()
    os.environ.update(place["environ"])
    try:
        if script := place.get("script"):
            _run_script(script, trials)
        else:
            main()
    except BaseException:  # noqa: BLE001 (the process ends here, whatever it was)
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _run_script(path, trials):
    trial = importlib.import_module("vitrify.artifacts.trial")
    trial.subprocess = trials
    sys.argv[:] = [path]
    sys.path.insert(0, str(Path(path).parent))
    runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
