"""Every fuzz target, or some: ``python tests/fuzz SECONDS [SEED] [TARGET ...]``; ``python tests/fuzz again FOLDER``.

Targets share the time and run one after another, each in a process of its own. A table is printed, each failing input
is written to a folder, and the exit status is 1 if there is one. ``again`` looks at such an input once more.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
import tempfile
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import TARGETS, _run
from fuzz._process import in_a_process


def main(arguments):
    """Run what the command line says, and return the exit status."""
    if arguments[:1] == ["again"] and len(arguments) == 2:
        return again(Path(arguments[1]))
    if not arguments or unknown(arguments):
        say(__doc__)
        return 2
    seed = int(arguments[1]) if len(arguments) > 1 else random.randrange(1 << 32)
    chosen = arguments[2:] or TARGETS
    folder = Path(tempfile.mkdtemp(prefix="vitrify-fuzz-"))
    say(f"seed {seed}")
    say(f"{'target':16}{'inputs':>9}{'accepted':>10}{'failures':>10}{'time':>10}{'slowest':>10}{'memory':>10}")
    failures = 0
    for name in chosen:
        outcome = in_a_process(name, float(arguments[0]) / len(chosen), seed)
        failures += len(outcome.failures)
        say(
            f"{name:16}{outcome.inputs:9}{outcome.accepted:10}{len(outcome.failures):10}{outcome.seconds:8.0f} s"
            f"{outcome.slowest:8.2f} s{outcome.largest >> 20:6} MiB"
        )
        for case, problem in outcome.failures.values():
            say(f"  {case.kind}: {problem.splitlines()[-1][:200]}")
            say(f"  python tests/fuzz again {keep(folder, name, case, problem)}")
    return bool(failures)


def say(line):
    """Print a line now: whoever reads a log of it waits for the next."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def unknown(arguments):
    """Say whether these are no seconds, seed and targets."""
    numbers = all(one.replace(".", "", 1).isdecimal() for one in arguments[:2])
    return not numbers or not set(arguments[2:]) <= set(TARGETS)


def keep(folder, name, case, problem):
    """Write a failing input to a folder of its own, and return that."""
    digest = hashlib.sha256(repr(case).encode()).hexdigest()[:12]
    place = folder / f"{name}-{digest}"
    for file, data in case.files.items():
        path = place / "files" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    place.mkdir(exist_ok=True)
    (place / "case.json").write_text(json.dumps({"target": name, "kind": case.kind}))
    (place / "problem.txt").write_text(problem)
    return place


def again(place):
    """Look once more at an input that was kept, and return the exit status."""
    told = json.loads((place / "case.json").read_text())
    files = place / "files"
    held = {
        path.relative_to(files).as_posix(): path.read_bytes() for path in sorted(files.rglob("*")) if path.is_file()
    }
    trial = _run.attempt(import_module(f"fuzz.{told['target']}"), _run.Case(told["kind"], held))
    say(trial.problem or f"no failure ({trial.seconds:.2f} s, {trial.memory >> 20} MiB)")
    return bool(trial.problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
