r"""scikit-learn's text features: tokens as its regular expressions see them, counted and weighted in double.

ONNX itself cannot split by a regular expression; ONNX Runtime's own ``com.microsoft.Tokenizer`` can, with RE2, whose
``\w`` and ``\b`` know ASCII only. The patterns that are supported are therefore written in Unicode properties.

Source: ``sklearn/feature_extraction/text.py``; Tokenizer,
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Tokenizer
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._data import FLOATS, Data, Frame, matrix
from vitrify.transforms.convert._graph import F32, I64, MS, TEXT, Graph, Tensor
from vitrify.transforms.convert._sklearn_encode import lookup
from vitrify.transforms.convert._sklearn_scale import normalize
from vitrify.transforms.convert._steps import Outcome, Steps, converts, refuse

_WORD = r"[\p{L}\p{N}_]"
_PATTERNS = {
    r"(?u)\b\w\w+\b": f"{_WORD}{{2,}}",
    r"\b\w\w+\b": f"{_WORD}{{2,}}",
    r"(?u)\b\w+\b": f"{_WORD}+",
    r"\b\w+\b": f"{_WORD}+",
    r"(?u)\w+": f"{_WORD}+",
    r"\w+": f"{_WORD}+",
    r"\w{2,}": f"{_WORD}{{2,}}",
    r"\w\w+": f"{_WORD}{{2,}}",
    r"[a-z]+": "[a-z]+",
    r"[a-zA-Z]+": "[a-zA-Z]+",
    r"[A-Za-z]+": "[A-Za-z]+",
}
"""Token patterns of Python, and what says the same in RE2: a longest run of such characters is what both find."""

_PAD, _UNKNOWN = -1, -2


def _check(model: Any) -> None:
    """Refuse at once everything that the graph cannot do."""
    patterns = ", ".join(_PATTERNS)
    reasons = []
    if model.analyzer != "word":
        reasons.append((f"analyzer={model.analyzer!r} splits into characters or calls Python code", "analyzer='word'"))
    elif model.tokenizer is not None:
        reasons.append(("tokenizer= calls Python code", "a token_pattern"))
    elif model.token_pattern not in _PATTERNS:
        reasons.append((f"token_pattern={model.token_pattern!r} cannot be said in RE2", f"one of {patterns}"))
    if model.input != "content":
        reasons.append((f"input={model.input!r} reads files", "input='content'"))
    if model.preprocessor is not None:
        reasons.append(("preprocessor= calls Python code", "lowercase=True"))
    if model.strip_accents is not None:
        reasons.append((f"strip_accents={model.strip_accents!r}: ONNX cannot strip accents", "strip_accents=None"))
    if model.stop_words is not None and model.ngram_range[1] > 1:
        reasons.append(("stop words are taken out before n-grams are made", "ngram_range=(1, 1), or no stop words"))
    if reasons:
        refuse("; ".join(reason for reason, _ in reasons), f"use {', and '.join(remedy for _, remedy in reasons)}")


@converts("sklearn.CountVectorizer")
def count_vectorizer(steps: Steps, model: Any, data: Data) -> Outcome:
    """Count the terms."""
    return Outcome(features=steps.graph.cast(_counts(steps, model, data), model.dtype))


@converts("sklearn.TfidfVectorizer")
def tfidf_vectorizer(steps: Steps, model: Any, data: Data) -> Outcome:
    """Count the terms, then weigh them."""
    counts = steps.graph.cast(_counts(steps, model, data), model.dtype)
    return Outcome(features=_weigh(steps.graph, model._tfidf, counts))  # noqa: SLF001 (the fitted TfidfTransformer)


@converts("sklearn.TfidfTransformer")
def tfidf_transformer(steps: Steps, model: Any, data: Data) -> Outcome:
    """Weigh counts."""
    return Outcome(features=_weigh(steps.graph, model, matrix(steps.graph, data, FLOATS)))


def _weigh(graph: Graph, model: Any, counts: Tensor) -> Tensor:
    if model.sublinear_tf:
        some = graph.compare("Greater", counts, np.zeros((), counts.dtype))
        log = graph.binary("Add", graph.unary("Log", counts), np.ones((), counts.dtype))
        counts = graph.where(some, log, np.zeros((), counts.dtype))
    if model.use_idf:
        counts = graph.cast(graph.binary("Mul", counts, np.asarray(model.idf_)), counts.dtype)
    return counts if model.norm is None else normalize(graph, counts, model.norm)


def _counts(steps: Steps, model: Any, data: Data) -> Tensor:
    """Return how often each term of the vocabulary occurs: (rows, terms) in float32, exact for whole numbers."""
    _check(model)
    graph = steps.graph
    terms = sorted(model.vocabulary_, key=model.vocabulary_.get)
    grams = [term.split(" ") for term in terms]
    words = sorted({word for gram in grams for word in gram})
    tokens = _tokens(steps, model, _documents(graph, data), terms)
    numbers = lookup(graph, tokens, np.array([*words, ""], object), np.arange(len(words) + 1), _UNKNOWN)
    # A last token that is in no term: a batch of empty texts has no token at all, which the counter refuses.
    end = graph.op("Expand", np.array([[_PAD]]), _by_one(graph, numbers), dtype=I64)
    place = {word: number for number, word in enumerate(words)}
    counts = _count_grams(graph, graph.concat([numbers, end]), [[place[word] for word in gram] for gram in grams])
    if not model.binary:
        return counts
    return graph.cast(graph.compare("Greater", counts, np.zeros((), F32)), F32)


def _documents(graph: Graph, data: Data) -> Tensor:
    """Return the texts as a vector."""
    if isinstance(data, Frame):
        if len(data.columns) != 1:
            refuse(f"gets {len(data.columns)} columns", "give it one column, by its name and not as a list")
        data = data.columns[0].tensor
    if data.dtype != TEXT:
        refuse("gets numbers and expects text", "save the model with the example it was fitted on")
    return graph.reshape(data, -1)


def _by_one(graph: Graph, like: Tensor) -> Tensor:
    return graph.concat([graph.rows(like), graph.constant(np.array([1]))], axis=0)


def _tokens(steps: Steps, model: Any, documents: Tensor, terms: list[str]) -> Tensor:
    graph = steps.graph
    if model.lowercase:
        # The C locale is everywhere and lowers ASCII; a vocabulary beyond ASCII needs one that knows Unicode.
        locale = "C" if all(term.isascii() for term in terms) else "C.UTF-8"
        if locale != "C":
            steps.notes.append(f"text beyond ASCII is lowered by the locale {locale}, which the machine must have")
        documents = graph.op(
            "StringNormalizer", documents, dtype=TEXT, case_change_action="LOWER", is_case_sensitive=0, locale=locale
        )
    return graph.op(
        "Tokenizer",
        documents,
        dtype=TEXT,
        domain=MS,
        mark=0,
        mincharnum=1,
        pad_value="",
        tokenexp=_PATTERNS[model.token_pattern],
    )


def _count_grams(graph: Graph, numbers: Tensor, grams: list[list[int]]) -> Tensor:
    """Count n-grams of token numbers; the pool of TfIdfVectorizer is sorted by length."""
    by_length: dict[int, list[int]] = {}
    for index, gram in enumerate(grams):
        by_length.setdefault(len(gram), []).append(index)
    longest = max(by_length)
    starts: list[int] = []
    pool: list[int] = []
    places: list[int] = []
    for length in range(1, longest + 1):
        starts.append(len(pool))
        for index in by_length.get(length, []):
            pool += grams[index]
            places.append(index)
    return graph.op(
        "TfIdfVectorizer",
        numbers,
        dtype=F32,
        mode="TF",
        min_gram_length=min(by_length),
        max_gram_length=longest,
        max_skip_count=0,
        ngram_counts=starts,
        ngram_indexes=places,
        pool_int64s=pool,
    )
