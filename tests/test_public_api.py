"""The public names, and what importing them costs in modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

import vitrify

FRAMEWORKS = ("sklearn", "torch", "xgboost", "lightgbm", "catboost", "pandas", "polars", "onnx", "onnxruntime", "skops")

PUBLIC = {
    "Artifact",
    "Attestation",
    "Digest",
    "Field",
    "Manifest",
    "Plan",
    "Report",
    "Session",
    "Signature",
    "VitrifyError",
    "convert",
    "load",
    "matrix",
    "open",
    "pack",
    "plan",
    "read",
    "save",
    "scan",
    "verify",
}


def modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_the_public_names_are_these_and_at_most_25():
    assert set(vitrify.__all__) == PUBLIC
    assert len(PUBLIC) <= 25


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_can_be_had_and_is_documented(name):
    assert getattr(vitrify, name).__doc__


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'sav'"):
        vitrify.sav  # noqa: B018


def test_importing_vitrify_imports_no_framework_and_no_numpy():
    assert not modules_after("import vitrify") & {*FRAMEWORKS, "numpy", "click", "rich", "msgspec"}


def test_help_imports_no_framework_and_no_numpy():
    code = "from vitrify.cli import group\ntry: group.main(['--help'])\nexcept SystemExit: pass"
    assert not modules_after(code) & {*FRAMEWORKS, "numpy", "rich"}
