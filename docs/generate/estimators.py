"""Make the page of scikit-learn's estimators by trying every one of them.

    python docs/generate/estimators.py

It writes ``docs/reference/scikit-learn.md``. What is tried, and how, is in
``tests/transforms/convert/every_estimator.py``; a test asserts that the page still says what comes out.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "reference" / "scikit-learn.md"
LIBRARIES = ("scikit-learn", "numpy", "scipy", "onnx", "onnxruntime")

sys.path.insert(0, str(HERE.parent.parent / "tests"))

from transforms.convert.every_estimator import COMPARED, PROVEN, Row, attempt, estimators  # noqa: E402 (the path first)


def page(rows: list[Row]) -> str:
    """Return the page."""
    predictors = [row for row in rows if row.predicts]
    transformers = [row for row in rows if not row.predicts]
    proven = sum(row.verdict == PROVEN for row in predictors)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return "\n".join(
        [
            "# scikit-learn, estimator by estimator",
            "",
            f"**{proven} of {len(predictors)} predictors proven ({proven / len(predictors):.1%})**,",
            f"and {sum(row.verdict == PROVEN for row in transformers)} of {len(transformers)} transformers.",
            "",
            "Every public estimator that answers for new rows is fitted on generated data with its default settings,",
            f"saved, read back, converted to ONNX, and compared with itself on about {COMPARED} rows: the training",
            "rows, and probes made to break the graph. This page is made by running all that:",
            "",
            "```console",
            "python docs/generate/estimators.py",
            "```",
            "",
            f"Made with {versions}.",
            "",
            "- **proven**: no row is outside of the tolerance of double precision (1e-9). *Error* is what all errors",
            "  stay below, relative to the value and the output's scale; `equal` is equal to the bit. *Excused* are",
            "  answers that are not held against the graph, for the reasons on the page [Parity](parity.md).",
            "- **hybrid**: ONNX cannot take it, a pipeline with it goes to a `hybrid` artifact, proven too.",
            "- **refused**: said before any work, with the reason and what to do.",
            "- **differs**: the proof fails on some probes; no artifact is made.",
            "- **cannot be saved**: there is nothing to convert.",
            "",
            "## Predictors",
            "",
            *_table(predictors),
            "",
            "## Transformers",
            "",
            *_table(transformers),
            "",
        ]
    )


def _table(rows: list[Row]) -> list[str]:
    counts = Counter(row.verdict for row in rows)
    return [
        ", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()) + ".",
        "",
        "| estimator | answers with | verdict | rows | excused | error | reason and remedy |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
        *map(_line, rows),
    ]


def _line(row: Row) -> str:
    answers = ", ".join(f"`{name}`" for name in row.answers[:3]) + (", ..." if len(row.answers) > 3 else "")
    figures = ("", "", "")
    if row.verdict == PROVEN:
        figures = (str(row.compared), str(row.excused), f"{row.error:.0e}" if row.error else "equal")
    why = "; ".join(part for part in (row.reason, row.remedy) if part).replace("\n", " ").replace("|", "\\|")
    if row.format != "skops":
        why = f"saved as `{row.format}`" + (f"; {why}" if why else "")
    return f"| {row.name} | {answers} | {row.verdict} | {' | '.join(figures)} | {why} |"


def main() -> None:
    """Try them all, and write the page."""
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated estimators
        for name, kind in estimators().items():
            with tempfile.TemporaryDirectory() as folder:
                rows.append(attempt(kind, Path(folder)))
            print(f"{name}: {rows[-1].verdict}", flush=True)
    PAGE.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
