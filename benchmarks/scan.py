"""Scanning: who finds what in the corpus of ``tests/corpus``, and how fast; against four scanners of the field.

``-v`` lists each file that a scanner gets wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from _measure import scratch, show
from _peers import PEERS, QUIET, ROOT, ready

sys.path.insert(0, str(ROOT / "tests"))
TOOLS = ("picklescan", "picklescan --strict", "modelscan", "fickling", "modelaudit")
NOTHING_SCANNED = 3  # modelscan: none of the files is of a kind that it knows


def main() -> None:
    """Print the table, then the speeds."""
    ready()
    with scratch() as folder:
        hostile, benign = corpus(Path(folder))
        compare(hostile, benign)


def corpus(folder: Path) -> tuple[list[str], list[str]]:
    """Write every file; return their paths."""
    from corpus import benign, hostile

    paths: dict[str, list[str]] = {"hostile": [], "benign": []}
    for case in hostile():
        place = folder / "hostile" / case.id.replace("/", "_")
        place.mkdir(parents=True)
        paths["hostile"].append(str(case.make(place, folder / "marker")))
    for name, make in benign().items():
        place = folder / "benign" / name
        place.mkdir(parents=True)
        paths["benign"].append(str(make(place)))
    return paths["hostile"], paths["benign"]


def ours(paths: list[str]) -> dict[str, list[float]]:
    """Scan in one process; the status is what ``vitrify scan`` would exit with for that file."""
    from vitrify.inspection.scan import scan

    status = {"clean": 0, "found": 1, "not checked": 2}
    answers = {}
    scan(Path(__file__))  # the peers have imported what they need before they are asked
    for path in paths:
        start = time.perf_counter()
        answers[path] = [status[scan(Path(path)).verdict], time.perf_counter() - start]
    return answers


def theirs(tool: str, paths: list[str]) -> dict[str, list[float]]:
    """Ask a peer."""
    command = [PEERS / "bin" / "python", ROOT / "benchmarks" / "_peer_scanners.py", tool]
    done = subprocess.run(
        command, input=json.dumps(paths), text=True, capture_output=True, check=True, env={**os.environ, **QUIET}
    )
    return json.loads(done.stdout.splitlines()[-1])


def compare(hostile: list[str], benign: list[str]) -> None:
    """Print how many of each each scanner gets wrong. What a scanner fails on or refuses counts as not clean."""
    rows = []
    for tool in ("vitrify", *TOOLS):
        answers = ours(hostile + benign) if tool == "vitrify" else theirs(tool, hostile + benign)
        clean = {path for path, (status, _) in answers.items() if status in {0, NOTHING_SCANNED}}
        missed, flagged = len(clean & set(hostile)), len(set(benign) - clean)
        seconds = [took for _, took in answers.values()]
        pace = f"a file takes {1000 * median(seconds):.1f} ms, at most {max(seconds):.2f} s"
        against = f"flagged {flagged} of {len(benign)} harmless; {pace}"
        rows.append((tool, f"missed {missed}", against))
        if "-v" in sys.argv:
            print(tool, *sorted(Path(path).parent.name for path in clean & set(hostile)), sep="\n  missed ")
            print(tool, *sorted(Path(path).parent.name for path in set(benign) - clean), sep="\n  flagged ")
    show(f"Corpus: {len(hostile)} hostile files and {len(benign)} harmless ones", rows)


if __name__ == "__main__":
    main()
