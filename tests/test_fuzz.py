"""A short run of every fuzz target; ``make fuzz`` runs them for longer."""

from __future__ import annotations

import math
import random
from importlib import import_module
from types import SimpleNamespace

import pytest
from fuzz import TARGETS, _look, protobufs, texts, whole
from fuzz import archives as archive_targets
from fuzz._layers import through
from fuzz._run import Case, attempt, run
from samples import archives

ONE = Case("kind", {"file": b"0123"})


@pytest.fixture(autouse=True)
def not_timed(monkeypatch):
    """How long an input takes is for ``make fuzz``; here it only has to end."""
    monkeypatch.setattr("fuzz._run.SECONDS", math.inf)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_files_find_nothing(name):
    outcome = run(import_module(f"fuzz.{name}"), math.inf, 7, inputs=250, quick=True)
    assert not outcome.failures, str(outcome)
    assert outcome.inputs >= 250
    assert outcome.accepted


def test_what_a_target_raises_is_told_once_for_each_place_and_run_again_the_same():
    def check(case):
        assert int(case.files["file"]) < 5

    def change(case, honest, chance):
        return Case("kind", {"file": b"%d" % chance.randrange(10)})

    target = SimpleNamespace(seeds=lambda quick: [Case("kind", {"file": b"1"})], change=change, check=check)
    first, second = (list(run(target, math.inf, 3, inputs=100).failures.values()) for _ in range(2))
    assert len(first) == 1
    assert "AssertionError" in first[0][1]
    assert first[0][0] == second[0][0]


def test_an_input_that_takes_too_much_memory_is_a_failure():
    target = SimpleNamespace(
        seeds=lambda quick: [ONE], change=lambda case, *_: case, check=lambda _: len(bytearray(1 << 27))
    )
    assert "took 12" in str(run(target, math.inf, 3, inputs=1))


def test_what_is_changed_behind_a_checksum_is_still_read():
    data = archives.zipped({"a.txt": b"text", "b.txt": b"more"})
    seen = {through(data, random.Random(seed), lambda inner: inner + b"!") for seed in range(20)} - {data}
    assert any(archive_targets.compare(Case("zip", {"a.zip": one})) for one in seen)


LONG = {
    "unclosed quotes in code": ("script", b"x = " + b'\\"' * 40_000),
    "text in code": ("script", b"x = '" + b"\\'" * 200_000 + b"'"),
    "unclosed quotes in a module": ("stablehlo", b"module {\n" + b'"\\' * 40_000),
    "a literal": ("literal", b"['" + b"a" * 500_000 + b"']"),
    "text in a template": ("jinja", b"{{ '" + b"a" * 250_000 + b"' }}"),
    "a pattern in a template": ("jinja", b"{{ '" + b"{[" * 100_000 + b"'.format(a) }}"),
    "quoted text": ("yaml", b"a: '" + b"''" * 200_000 + b"'"),
}


@pytest.mark.parametrize(("kind", "text"), LONG.values(), ids=LONG)
def test_a_long_run_of_one_word_comes_to_an_end_and_takes_no_more_memory_than_another_text(kind, text):
    assert not attempt(texts, Case(kind, {"text": text})).problem


@pytest.mark.parametrize(
    "text", [b"\n" * 60_000, b"a" + b" " * 60_000, b"a" + b"!" * 60_000, b"from a import " + b" " * 60_000]
)
def test_whatever_a_text_is_long_of_its_format_is_found(text):
    assert not attempt(whole, Case("text", {"requirements.txt": text})).problem


def test_messages_that_are_cut_off_anywhere_raise_nothing_else():
    for case in protobufs.seeds(quick=True):
        for name, data in case.files.items():
            for end in range(0, min(len(data), 5_000), 250):
                cut = Case(case.kind, {**case.files, name: data[:end]})
                _look.ask(_look.form(cut.kind), cut)
