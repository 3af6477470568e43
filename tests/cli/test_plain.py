"""Text from strangers on a terminal, in JSON and in drawings: it steers nothing."""

from __future__ import annotations

import json

import pytest

from vitrify.cli._plain import plain, plain_json, plain_lines
from vitrify.core.html import escape

EVIL = "a\x1b[2Jb\x9bc\u202ed\ud800e\U000e0001f"


@pytest.mark.parametrize("show", [plain, plain_lines, lambda text: plain_json(json.dumps(text, ensure_ascii=False))])
def test_nothing_that_is_shown_steers_a_terminal(show):
    assert all(char.isprintable() for char in show(EVIL))


def test_json_means_the_same_after_it_was_made_safe():
    value = {"a": [EVIL, "Größe", "\u00a0", "🙂", 1.5]}
    assert json.loads(plain_json(json.dumps(value, indent=2, ensure_ascii=False))) == value


def test_lines_stay_lines_and_a_name_s_own_are_none():
    assert plain_lines("one\ntwo") == "one\ntwo"
    assert plain("one\ntwo") == r"one\ntwo"


def test_a_drawing_holds_no_character_that_xml_forbids_or_nobody_sees():
    assert escape("a\x1b<b>\u202e\x00") == "a\ufffd&lt;b&gt;\ufffd\ufffd"
    assert escape("Größe 🙂\n") == "Größe 🙂\n"
