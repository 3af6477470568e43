"""The size targets of the design: a file is one concept, a function fits on a screen."""

from __future__ import annotations

import ast
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_no_file_is_above_500_lines_and_no_function_above_60(path):
    assert lines(path) <= 500
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.body[0].lineno
            assert (node.end_lineno or 0) - start < 60, f"{node.name} is too long"


def test_the_median_file_has_at_most_150_lines():
    assert median(lines(path) for path in SOURCES) <= 150


def test_every_source_file_starts_with_a_docstring():
    missing = [path for path in SOURCES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert not missing
