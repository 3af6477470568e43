from __future__ import annotations

import importlib.util
from pathlib import Path


def test_changed_files_are_described_or_refused():
    spec = importlib.util.spec_from_file_location("fuzz_weights", Path(__file__).parents[1] / "fuzz" / "weights.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count, failures = module.fuzz(3, 7)
    assert count > 100
    assert not failures, failures[0]
