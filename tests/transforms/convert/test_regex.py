"""Python's expressions in RE2."""

from __future__ import annotations

import re

import pytest

from vitrify.transforms.convert._sklearn.regex import run_of_words, translate


@pytest.mark.parametrize(
    ("pattern", "inner"),
    [
        (r"(?u)\b\w\w+\b", r"\w\w+"),
        (r"\b[a-z]{3,}\b", "[a-z]{3,}"),
        (r"\b(?:ab|c)+\b", "(?:ab|c)+"),
        (r"\b[a-z-]+\b", None),
        (r"\b\w+(?!x)\b", None),
        (r"\w+", None),
    ],
)
def test_a_run_of_word_characters_is_known(pattern, inner):
    assert run_of_words(pattern) == inner


@pytest.mark.parametrize("pattern", [r"[a-z]+", r"\d{2,3}x?", r"[^a-z]+?b", r"a|bc|\.", r"(?:ab)*c", r".x"])
def test_ascii_is_matched_alike_by_what_is_written(pattern):
    said = re.sub(r"\\x\{([0-9a-f]+)\}", lambda code: re.escape(chr(int(code[1], 16))), translate(pattern))
    said = said.replace(r"\p{Nd}", "0-9")
    text = "ab12xabc.\nABC 7x bc--x12"
    assert re.findall(said, text) == re.findall(pattern, text)


@pytest.mark.parametrize("pattern", [r"(a)b", r"x*", r"(?i)a", r"a(?=b)", r"^a", r"a\b", r"[^\W]"])
def test_what_re2_does_not_have_is_an_error(pattern):
    with pytest.raises(ValueError, match=r"."):
        translate(pattern)
