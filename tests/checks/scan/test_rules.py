"""Every rule that a format or a reader uses is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import vitrify
from vitrify.checks.scan.rules import RULES, rule

ROOMS = ("checks/scan", "formats", "inspection", "pickles", "reading")
"""Whose findings a scan shows."""

SOURCES = sorted(path for room in ROOMS for path in (Path(vitrify.__file__).parent / room).rglob("*.py"))
USED = re.compile(
    r"""\brule\s*(?:,\s*\w+\s*)?=\s*"([a-z0-9-]+)\"|\b_?finding\((?:[^()]|\([^()]*\))*?,\s*"([a-z0-9]+(?:-[a-z0-9]+)+)\""""
)
"""As a keyword, as a variable, or as an argument of what makes findings."""


def used():
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    return {name for text in texts for pair in USED.findall(text) for name in pair if name}


def test_every_rule_in_the_source_is_in_the_table():
    assert used() - set(RULES) == set()


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_says_what_it_means_and_what_to_do_in_sentences(name):
    one = RULES[name]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert not one.title.endswith(".")
    assert one.meaning.endswith(".")
    assert one.remedy.endswith(".")


def test_a_rule_of_a_third_party_has_a_meaning_too():
    assert "third party" in rule("acme-special").meaning


def test_the_documentation_has_the_table_word_for_word():
    page = Path(__file__).parents[3] / "docs" / "reference" / "scan-rules.md"
    documented = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    expected = {name: f"{one.title} | {one.meaning} | {one.remedy} | {one.verdict}" for name, one in RULES.items()}
    assert dict(documented) == expected
    assert [name for name, _ in documented] == sorted(RULES)
