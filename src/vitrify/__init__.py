"""Vitrify: carry a trained model out of its framework, and prove on the way that it still is the same model.

>>> import vitrify
>>> vitrify.scan("model.pkl").verdict                # clean, found or not checked; nothing in it runs
>>> vitrify.save(model, "churn", example=X)          # sealed: verified, tried in a clean process
>>> vitrify.convert("churn", to="onnx")              # proven: same predictions, or no artifact
>>> vitrify.load("churn-onnx").predict(X)            # names in, arrays out

Everything is imported when it is first used: ``import vitrify`` costs milliseconds.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact as Artifact
    from vitrify.artifacts.artifact import open_artifact as open  # noqa: A004, F401 (its public name)
    from vitrify.artifacts.load import load as load
    from vitrify.artifacts.pack import pack as pack
    from vitrify.artifacts.read import read as read
    from vitrify.artifacts.save import save as save
    from vitrify.checks.scan import scan as scan
    from vitrify.checks.verify import verify as verify
    from vitrify.core.attestation import Attestation as Attestation
    from vitrify.core.digest import Digest as Digest
    from vitrify.core.errors import VitrifyError as VitrifyError
    from vitrify.core.manifest import Manifest as Manifest
    from vitrify.core.plan import Plan as Plan
    from vitrify.core.protocols import Session as Session
    from vitrify.core.report import Report as Report
    from vitrify.core.signature import Field as Field
    from vitrify.core.signature import Signature as Signature
    from vitrify.transforms.conversion import convert as convert
    from vitrify.transforms.matrix import matrix as matrix
    from vitrify.transforms.planner import plan as plan

_PUBLIC = {
    "Artifact": "vitrify.artifacts.artifact",
    "Attestation": "vitrify.core.attestation",
    "Digest": "vitrify.core.digest",
    "Field": "vitrify.core.signature",
    "Manifest": "vitrify.core.manifest",
    "Plan": "vitrify.core.plan",
    "Report": "vitrify.core.report",
    "Session": "vitrify.core.protocols",
    "Signature": "vitrify.core.signature",
    "VitrifyError": "vitrify.core.errors",
    "convert": "vitrify.transforms.conversion",
    "load": "vitrify.artifacts.load",
    "matrix": "vitrify.transforms.matrix",
    "open": "vitrify.artifacts.artifact:open_artifact",
    "pack": "vitrify.artifacts.pack",
    "plan": "vitrify.transforms.planner",
    "read": "vitrify.artifacts.read",
    "save": "vitrify.artifacts.save",
    "scan": "vitrify.checks.scan",
    "verify": "vitrify.checks.verify",
}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605 (a list of strings, in one place)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _PUBLIC:
        msg = f"module 'vitrify' has no attribute {name!r}"
        raise AttributeError(msg)
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(importlib.import_module(module), attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
