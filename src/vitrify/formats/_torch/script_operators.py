"""The operators that the code of a TorchScript file calls, and which of them reach out of the model.

The code is text in a small language that looks like Python; PyTorch compiles it for an interpreter of its own, which
knows operators of PyTorch (``torch.linear``, ``ops.prim.device``), those that a library has registered
(``ops.torchvision.nms``), and no Python. Source: ``torch/csrc/jit/serialization/python_print.cpp``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

_STRINGS = re.compile(
    r"""'{3}(?:[^\\]|\\.)*?'{3}|\"{3}(?:[^\\]|\\.)*?\"{3}|(?P<open>'{3}.*|\"{3}.*)"""
    r"""|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|(?P<rest>['"][^\n]*)|\#[^\n]*""",
    re.DOTALL,
)
"""Text that is never closed is taken whole, lest its end be looked for behind each quote in it, and kept."""
_DOTS = re.compile(r"(?<![\s\\])[\s\\]*+\.[\s\\]*+")
_CHAIN = re.compile(r"(?<![\w.])(torch|ops|rpc_async|rpc_sync|rpc_remote)((?:\.\w+)*)(?!\w)", re.ASCII)
_CLASS = re.compile(r"__torch__\.torch\.classes\.(\w+)\.(\w+)", re.ASCII)

NAMESPACES = frozenset(
    ("aten", "prim", "prims", "quantized", "_quantized", "sparse", "mkldnn", "mkldnn_prepacked", "prepacked", "onednn")
)
"""Operators of PyTorch itself."""

CLASSES = frozenset({"quantized", "sparse", "xnnpack", "rnn", "mkldnn"})
"""Whose classes of packed weights PyTorch itself brings."""

_REACHES = {
    "save": "writes a file that the model names",
    "from_file": "reads a file that the model names",
    "PythonOp": "calls Python",
    "IgnoredPythonOp": "calls Python",
    "rpc_async": "calls another machine",
    "rpc_sync": "calls another machine",
    "rpc_remote": "calls another machine",
}


def operators(code: str) -> Iterator[str]:
    """Yield each mention of an operator as ``namespace::name``; a bare ``torch`` or ``ops`` as ``torch::``."""
    plain = _DOTS.sub(".", _STRINGS.sub(lambda found: found[0] if found.lastgroup else '""', code))
    for found in _CHAIN.finditer(plain):
        base, parts = found[1], found[2].split(".")[1:]
        if base.startswith("rpc"):
            yield f"prim::{base}"
        elif base == "torch":
            yield f"aten::{parts[0]}" if parts else "torch::"
        else:
            yield f"{parts[0]}::{parts[1]}" if len(parts) > 1 else "ops::"
    for found in _CLASS.finditer(plain):
        yield f"classes.{found[1]}::{found[2]}"


def hazards(names: Iterator[str], place: str) -> Iterator[Finding]:
    """Yield a finding for each operator that is not PyTorch's own, or reaches out of the model."""
    for name in sorted(set(names)):
        namespace, _, operator = name.partition("::")
        if operator in _REACHES and namespace in NAMESPACES:
            rule, message = "operator-reaches-out", f"calls {name}, which {_REACHES[operator]}"
        elif not operator:
            rule, message = "computed-operator", f"uses {namespace} as a value, which hides what it calls"
        elif namespace.startswith("classes.") and namespace.removeprefix("classes.") not in CLASSES:
            rule, message = "foreign-class", f"uses the class {name}, native code of a library other than PyTorch"
        elif not namespace.startswith("classes.") and namespace not in NAMESPACES:
            rule, message = "foreign-operator", f"calls {name}, native code of a library other than PyTorch"
        else:
            continue
        remedy = "allow it if you know what it does and trust the file"
        yield Finding(place=place, message=message, rule=rule, subject=name, remedy=remedy)
