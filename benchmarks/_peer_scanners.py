"""Runs in the peers' own environment: asks one scanner about many files, each in a process forked for it.

Reads a list of paths as JSON on standard input, prints ``{path: [exit status, seconds]}``. Importing is done once,
before the forks, which is to the peers' favour. A file that takes longer than the limit counts as not clean.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time

LIMIT = 120
TOOLS = {
    "picklescan": ("picklescan.cli", "main", ("--path",)),
    "picklescan --strict": ("picklescan.cli", "main", ("--strict", "--path")),
    "modelscan": ("modelscan.cli", "main", ("--path",)),
    "fickling": ("fickling.cli", "main", ("--check-safety",)),
    "modelaudit": ("modelaudit.cli", "main", ("scan", "--format", "json")),
}


def ask(main, arguments: list[str]) -> int:
    """Call a command line in this process and return its exit status."""
    sys.argv = arguments
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 (the process ends with it)
    try:
        status = main()
    except SystemExit as exit_:
        status = exit_.code
    except BaseException:  # noqa: BLE001 (a scanner that fails has not said clean)
        return 2
    return status if isinstance(status, int) else int(status is not None)


def main() -> None:
    """Answer for one tool."""
    module, function, options = TOOLS[sys.argv[1]]
    call = getattr(importlib.import_module(module), function)
    answers = {}
    for path in json.load(sys.stdin):
        start = time.perf_counter()
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT)
            os._exit(ask(call, [sys.argv[1].split()[0], *options, path]) & 0xFF)
        _, status = os.waitpid(child, 0)
        answers[path] = [os.waitstatus_to_exitcode(status), time.perf_counter() - start]
    print(json.dumps(answers))


main()
