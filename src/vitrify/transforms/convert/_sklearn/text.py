"""scikit-learn's text features: terms counted and weighted in double, or hashed.

Source: ``sklearn/feature_extraction/text.py``, ``_hash.py``, ``_hashing_fast.pyx``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, Frame, matrix
from vitrify.transforms.convert._building.graph import BOOL, F32, I64, TEXT, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._sklearn import tokens as cutting
from vitrify.transforms.convert._sklearn.hashing import added, check_width, hashed_place
from vitrify.transforms.convert._sklearn.scale import normalize


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
    cutting.check(model)
    graph = steps.graph
    terms = sorted(model.vocabulary_, key=model.vocabulary_.get)
    documents = cutting.lowered(steps, model, _documents(graph, data), terms)
    grams = [list(term) if model.analyzer != "word" else term.split(" ") for term in terms]
    known = sorted({part for gram in grams for part in gram})
    if model.analyzer == "char":
        numbers = cutting.characters(graph, documents, known)
    elif model.analyzer == "char_wb":
        numbers = cutting.characters_in_words(graph, documents, known)
    else:
        tokens = cutting.words(graph, model, documents, packed=model.ngram_range[1] > 1)
        numbers = cutting.numbered(graph, tokens, known)
    place = {part: number for number, part in enumerate(known)}
    counts = _count_grams(graph, numbers, [[place[part] for part in gram] for gram in grams])
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


@converts("sklearn.HashingVectorizer")
def hashing_vectorizer(steps: Steps, model: Any, data: Data) -> Outcome:
    """Hash the words and the n-grams of words; add up, one for each or one with a sign."""
    graph = steps.graph
    cutting.check(model)
    if model.analyzer != "word":
        refuse(
            f"hashes what analyzer={model.analyzer!r} gives, which is no single token in ONNX", "use analyzer='word'"
        )
    check_width(model)
    if model.lowercase:
        message = "hashes words in lower case by Python's rules, which ONNX does not follow for all of Unicode"
        refuse(message, "use lowercase=False, and lower the text before the model")
    documents = _documents(graph, data)
    low, high = model.ngram_range
    tokens = cutting.words(graph, model, documents, packed=high > 1)
    grams = [_joined(graph, tokens, length) for length in range(low, high + 1)]
    counts = _hashed(graph, model, graph.concat(grams))
    return Outcome(features=counts if model.norm is None else normalize(graph, counts, model.norm))


def _joined(graph: Graph, tokens: Tensor, length: int) -> Tensor:
    """Return each word and those behind it, with blanks between; the empty text where there are fewer."""
    if length == 1:
        return tokens
    nothing = np.array("", TEXT)
    result, complete = tokens, graph.compare("Equal", tokens, tokens)
    for shift in range(1, length):
        ahead = graph.op(
            "Slice", tokens, np.array([shift]), np.array([np.iinfo(np.int64).max]), np.array([1]), dtype=TEXT
        )
        rows = graph.concat(
            [graph.rows(tokens), graph.op("Min", np.array([shift]), _width(graph, tokens), dtype=I64)], 0
        )
        ahead = graph.concat([ahead, graph.op("Expand", nothing.reshape(1, 1), rows, dtype=TEXT)])
        there = graph.op("Not", graph.compare("Equal", ahead, nothing), dtype=BOOL)
        complete = graph.op("And", complete, there, dtype=BOOL)
        result = graph.op("StringConcat", result, np.array(" ", TEXT), dtype=TEXT)
        result = graph.op("StringConcat", result, ahead, dtype=TEXT)
    return graph.where(complete, result, nothing)


def _width(graph: Graph, tokens: Tensor) -> Tensor:
    return graph.op("Shape", tokens, dtype=I64, start=1, end=2)


def _hashed(graph: Graph, model: Any, tokens: Tensor) -> Tensor:
    """Return (rows, n_features): how often each hash occurs, of tokens that are not empty."""
    there = graph.op("Not", graph.compare("Equal", tokens, np.array("", TEXT)), dtype=BOOL)
    place, sign = hashed_place(graph, model, tokens)
    one, zero = np.ones((), sign.dtype), np.zeros((), sign.dtype)
    if model.binary:
        seen = added(graph, model, place, graph.where(there, one, zero))
        counts = graph.cast(graph.compare("Greater", seen, zero), sign.dtype)
    else:
        counts = added(graph, model, place, graph.where(there, sign, zero))
    return graph.cast(counts, np.dtype(model.dtype))
