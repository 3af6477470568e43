"""Which operators are known: those of the ONNX standard and of ONNX Runtime's own build.

The table beside this file is made from both libraries by ``tests/formats/operator_tables.py``. Whatever is not in it
can only come from a library of native code that somebody has to load into the process.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

STANDARD = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
"""The standard's domains; ``ai.onnx`` is the empty one."""

NATIVE = {
    "com.microsoft.EPContext": "hands a compiled engine, from an attribute or a file, to an execution provider",
    "com.microsoft.Snpe": "hands a compiled container to a native library",
    "com.microsoft.TorchEmbedding": "calls into PyTorch",
}
"""Operators of ONNX Runtime itself that run what is not in the graph, and how."""


def known(domain: str, name: str) -> bool:
    """Say whether an operator is one of the standard's or of ONNX Runtime's."""
    return name in _table().get(domain, frozenset())


def newest(domain: str) -> int:
    """Return the version of a standard domain that the table was made from; 0 for another domain."""
    return _versions().get(domain, 0)


@cache
def _lines() -> list[list[str]]:
    text = Path(__file__).with_name("operators.txt").read_text(encoding="utf-8")
    return [line.split(" ") for line in text.splitlines()]


@cache
def _table() -> dict[str, frozenset[str]]:
    return {
        domain.removesuffix("ai.onnx") if domain == "ai.onnx" else domain: frozenset(names)
        for domain, _, *names in _lines()
    }


@cache
def _versions() -> dict[str, int]:
    return {"" if domain == "ai.onnx" else domain: int(version) for domain, version, *_ in _lines()}
