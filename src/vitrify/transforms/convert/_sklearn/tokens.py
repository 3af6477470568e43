r"""Text cut into tokens as scikit-learn cuts it: numbers of words or of characters, a row a text.

ONNX itself cannot split by a regular expression; ONNX Runtime's own ``com.microsoft.Tokenizer`` can, with RE2, whose
``\w``, ``\s`` and ``\b`` know ASCII only. They are therefore written in Unicode properties. A word boundary needs no
word for it where a token is made of word characters alone: it is then a whole run of them, and the run is matched.

Source: ``sklearn/feature_extraction/text.py``; Tokenizer,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Tokenizer
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._building.graph import BOOL, I64, MS, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import Steps, refuse
from vitrify.transforms.convert._sklearn.encode import lookup
from vitrify.transforms.convert._sklearn.regex import run_of_words, translate

if TYPE_CHECKING:
    from collections.abc import Collection

PAD, UNKNOWN = -1, -2
SPACE = r"[\t-\r\x1c-\x20\x{85}\p{Z}]"
"""What Python takes for white space."""
_NOT_SPACE = r"[^\t-\r\x1c-\x20\x{85}\p{Z}]"


def check(model: Any) -> None:
    """Refuse at once everything about a vectorizer that the graph cannot do.

    Raises:
        UnsupportedModelError: It calls Python code, reads files or strips accents.
    """
    reasons = []
    if not isinstance(model.analyzer, str):
        reasons.append(("analyzer= calls Python code", "analyzer='word', 'char' or 'char_wb'"))
    elif model.analyzer == "word" and model.tokenizer is not None:
        reasons.append(("tokenizer= calls Python code", "a token_pattern"))
    elif model.analyzer == "word" and (reason := _unsaid(model.token_pattern)):
        reasons.append((f"token_pattern={model.token_pattern!r} {reason}", r"a pattern such as (?u)\b\w\w+\b"))
    if model.input != "content":
        reasons.append((f"input={model.input!r} reads files", "input='content'"))
    if model.preprocessor is not None:
        reasons.append(("preprocessor= calls Python code", "lowercase=True"))
    if model.strip_accents is not None:
        reasons.append((f"strip_accents={model.strip_accents!r}: ONNX cannot strip accents", "strip_accents=None"))
    if reasons:
        refuse("; ".join(reason for reason, _ in reasons), f"use {', and '.join(remedy for _, remedy in reasons)}")


def _unsaid(pattern: str) -> str:
    """Return why a token pattern cannot be said in RE2; nothing if it can."""
    try:
        translate(run_of_words(pattern) or pattern)
    except (ValueError, re.error) as error:
        return str(error)
    return ""


def lowered(steps: Steps, model: Any, documents: Tensor, terms: Collection[str]) -> Tensor:
    """Return the texts in lower case, if that is asked for."""
    if not model.lowercase:
        return documents
    # The C locale is everywhere and lowers ASCII; a vocabulary beyond ASCII needs one that knows Unicode.
    locale = "C" if all(term.isascii() for term in terms) else "C.UTF-8"
    if locale != "C":
        steps.notes.append(f"text beyond ASCII is lowered by the locale {locale}, which the machine must have")
    return steps.graph.op(
        "StringNormalizer", documents, dtype=TEXT, case_change_action="LOWER", is_case_sensitive=0, locale=locale
    )


def cut(graph: Graph, documents: Tensor, expression: str) -> Tensor:
    """Return the matches of an RE2 expression in each text of a vector; the empty text where a row has fewer."""
    return graph.op(
        "Tokenizer", documents, dtype=TEXT, domain=MS, mark=0, mincharnum=1, pad_value="", tokenexp=expression
    )


def words(graph: Graph, model: Any, documents: Tensor, *, packed: bool) -> Tensor:
    """Return the words: (rows, words) of text, the empty text where there is none.

    Args:
        graph: Where it is computed.
        model: The vectorizer.
        documents: A vector of texts.
        packed: Whether what is left out (stop words, runs that are no token) leaves no gap, as n-grams need it.
    """
    inner = run_of_words(model.token_pattern)
    expression = translate(model.token_pattern if inner is None else r"\w+")
    tokens = _with_end(graph, cut(graph, documents, expression))
    gone: list[Tensor] = []
    if inner is not None and inner not in {r"\w+", r"\w\w*"}:
        kept = graph.op("RegexFullMatch", tokens, dtype=BOOL, pattern=translate(inner))
        gone.append(graph.op("Not", kept, dtype=BOOL))
    if stops := sorted(model.get_stop_words() or ()):
        place = lookup(graph, tokens, np.array(stops, object), np.arange(len(stops)), UNKNOWN)
        gone.append(graph.compare("GreaterOrEqual", place, np.array(0)))
    if not gone:
        return tokens
    out = gone[0] if len(gone) == 1 else graph.op("Or", *gone, dtype=BOOL)
    tokens = graph.where(out, np.array("", TEXT), tokens)
    return _packed(graph, tokens, out) if packed else tokens


def _with_end(graph: Graph, tokens: Tensor) -> Tensor:
    """Add an empty token: a batch of empty texts has none at all, which the counter refuses."""
    shape = graph.concat([graph.rows(tokens), graph.constant(np.array([1]))], axis=0)
    return graph.concat([tokens, graph.op("Expand", np.array([[""]], object), shape, dtype=TEXT)])


def _packed(graph: Graph, tokens: Tensor, gone: Tensor) -> Tensor:
    """Return the tokens with those that are gone behind the others, which keep their order."""
    size = graph.op("Shape", tokens, dtype=I64, start=1, end=2)
    place = graph.op("CumSum", graph.cast(graph.compare("Equal", tokens, tokens), I64), np.array(1), dtype=I64)
    order = graph.binary("Add", place, graph.binary("Mul", graph.cast(gone, I64), size))
    _, at = graph.ops("TopK", order, size, dtypes=(I64, I64), axis=1, largest=0, sorted=1)
    return graph.op("GatherElements", tokens, at, dtype=TEXT, axis=1)


def numbered(graph: Graph, tokens: Tensor, known: list[str]) -> Tensor:
    """Return each token's position among the known ones; a number that is in no term for any other."""
    keys = np.array([*known, ""], object)
    return lookup(graph, tokens, keys, np.append(np.arange(len(known)), PAD), UNKNOWN)


def characters(graph: Graph, documents: Tensor, alphabet: list[str]) -> Tensor:
    """Return the numbers of the characters of each text, a run of white space as one blank: (rows, characters)."""
    tokens = _with_end(graph, cut(graph, documents, f"{SPACE}{SPACE}+|(?s:.)"))
    blank = alphabet.index(" ") if " " in alphabet else UNKNOWN
    runs = graph.op("RegexFullMatch", tokens, dtype=BOOL, pattern=f"{SPACE}{SPACE}+")
    return graph.where(runs, np.array(blank), numbered(graph, tokens, alphabet))


def characters_in_words(graph: Graph, documents: Tensor, alphabet: list[str]) -> Tensor:
    """Return the numbers of the characters of each word, a blank on both sides: (rows, characters)."""
    tokens = _with_end(graph, cut(graph, documents, f"{_NOT_SPACE}+"))
    rows = graph.rows(tokens)
    letters = _with_end(graph, cut(graph, graph.reshape(tokens, -1), "(?s:.)"))
    blank = alphabet.index(" ") if " " in alphabet else UNKNOWN
    numbers = numbered(graph, letters, alphabet)
    empty = graph.compare("Equal", letters, np.array("", TEXT))
    ended = graph.op("CumSum", graph.cast(empty, I64), np.array(1), dtype=I64)
    no_word = graph.gather(empty, np.array([0]), axis=1)
    numbers = graph.where(graph.compare("Equal", ended, np.array(1)), np.array(blank), numbers)
    numbers = graph.where(no_word, np.array(PAD), numbers)
    edges = graph.where(no_word, np.array(PAD), np.array([[blank]]))
    between = graph.where(no_word, np.array(PAD), np.array([[PAD]]))
    wide = graph.concat([edges, numbers, between])
    return graph.op("Reshape", wide, graph.concat([rows, graph.constant(np.array([-1]))], axis=0), dtype=I64)
