"""Errors: what they say, all at once, and no more often than needed."""

from __future__ import annotations

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding


def finding(place, remedy):
    return Finding(place=place, message="there is no such operator", remedy=remedy)


def test_a_remedy_against_everything_is_said_once():
    error = UnsupportedModelError("it cannot be carried", problems=[finding(place, "keep it") for place in "ab"])
    assert str(error).count("keep it") == 1
    assert error.remedy == "keep it"
    assert [problem.remedy for problem in error.problems] == ["keep it", "keep it"]


def test_remedies_that_differ_stand_beside_what_they_help_against():
    error = UnsupportedModelError("it cannot be carried", problems=[finding("a", "keep it"), finding("b", "leave it")])
    assert "a: there is no such operator (keep it)" in str(error)
    assert "b: there is no such operator (leave it)" in str(error)


def test_what_an_error_itself_advises_hides_nothing():
    error = UnsupportedModelError("no", problems=[finding(place, "keep it") for place in "ab"], remedy="ask")
    assert str(error).count("keep it") == 2
    assert error.remedy == "ask"
