"""Labels from scores: by a logistic or softmax of them, or the largest.

The label is an expression over the scores or probabilities, as the source has it: an evaluator's own choice between
equal probabilities, or among those of infinite scores, need not be the source's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vitrify.transforms.convert._pmml.elements import apply, constant, element, reference, spelled
from vitrify.transforms.convert._pmml.models import Model, label_type, labels, output, regression
from vitrify.transforms.convert._pmml.walk import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Fields

_HALF = 0.5


def shared(
    fields: Fields,
    chain: Sequence[Model],
    scores: Sequence[str],
    classes: Any,
    *,
    operator: str = "greaterThan",
    attributes: dict[str, Any] | None = None,
) -> Answer:
    """Return a ``RegressionModel`` that makes probabilities of scores, one logistic or more a softmax, and the label.

    Args:
        fields: Of the document.
        chain: The models that give the scores.
        scores: Their fields; one alone is that of the second of two labels.
        classes: The labels.
        operator: How the probability of a single score is compared with one half.
        attributes: More of its element.
    """
    known, name = labels(classes), fields.reserve("label")
    shares = [fields.reserve(f"probability({label})") for label in known]
    tables: list[tuple[Any, Any]] = [
        ([float(at == place) for at in range(len(scores))], 0.0) for place in range(len(scores))
    ]
    order: Sequence[int] = range(len(known))
    if len(scores) == 1:  # the first table is the one that the logistic is taken of
        tables, order = [([0.0], 0.0), *tables], (1, 0)
        above = apply(operator, reference(shares[1]), constant(_HALF))
        label = apply("if", above, spoken(known, 1), spoken(known, 0))
    else:
        label = largest(scores, known)
    made = [output(share, "probability", value=label_) for share, label_ in zip(shares, known, strict=True)]
    made.append(output(name, "transformedValue", label, dtype=label_type(known)))
    about = {"normalizationMethod": "logit" if len(scores) == 1 else "softmax", **(attributes or {})}
    model = regression(
        scores, tables, "classification", attributes=about, output=tuple(made), classes=known, order=order
    )
    return Answer(chain=(*chain, model), outputs={"label": name, "probability": shares})


def against_the_rest(
    fields: Fields, chain: Sequence[Model], scores: Sequence[str], classes: Any, *, whole: bool = True
) -> Answer:
    """Return the label, and a probability for each score by itself.

    Args:
        fields: Of the document.
        chain: The models that give the scores.
        scores: Their fields, one for each label.
        classes: The labels.
        whole: Whether the probabilities are divided by their sum; where that is zero, all are alike.
    """
    known, name = labels(classes), fields.reserve("label")
    shares = [fields.reserve(f"share({label})") for label in known]
    logit = {"normalizationMethod": "logit"}
    parts = [
        regression([score], [([1.0], 0.0)], attributes=logit, output=(output(share, "predictedValue"),))
        for score, share in zip(scores, shares, strict=True)
    ]
    answers, made = shares, [output(name, "transformedValue", largest(scores, known), dtype=label_type(known))]
    if whole:
        answers = [fields.reserve(f"probability({label})") for label in known]
        total = apply("sum", *map(reference, shares))
        for answer, share in zip(answers, shares, strict=True):
            divided = apply("/", reference(share), total)
            uniform = constant(1.0 / len(known))
            value = apply("if", apply("greaterThan", total, constant(0.0)), divided, uniform)
            made.append(output(answer, "transformedValue", value))
    *others, last = (*chain, *parts)
    seen = tuple(dict.fromkeys((*last.fields, *scores, *shares[:-1])))
    model = replace(last, output=(*last.output, *made), fields=seen)
    return Answer(chain=(*others, model), outputs={"label": name, "probability": answers})


def largest(scores: Sequence[str], classes: Sequence[Any]) -> Element:
    """Return the label of the first of the largest scores."""
    most = apply("max", *map(reference, scores))
    label = spoken(classes, len(scores) - 1)
    for place in range(len(scores) - 2, -1, -1):
        label = apply("if", apply("equal", reference(scores[place]), most), spoken(classes, place), label)
    return label


def spoken(classes: Sequence[Any], place: int) -> Element:
    """Return a label as a constant."""
    return element("Constant", {"dataType": label_type(classes)}, text=spelled(classes[place]))


def chosen(
    fields: Fields, chain: Sequence[Model], scores: Sequence[str], classes: Any, operator: str = "greaterThan"
) -> Answer:
    """Return the label that scores choose, and the scores: of one by its sign, of more the first of the largest."""
    known, name = labels(classes), fields.reserve("label")
    if len(scores) == 1:
        above = apply(operator, reference(scores[0]), constant(0.0))
        label = apply("if", above, spoken(known, 1), spoken(known, 0))
    else:
        label = largest(scores, known)
    made = output(name, "transformedValue", label, dtype=label_type(known))
    *others, last = chain
    seen = tuple(dict.fromkeys((*last.fields, *scores[:-1])))
    model = replace(last, output=(*last.output, made), fields=seen)
    return Answer(
        chain=(*others, model), outputs={"label": name, "score": scores[0] if len(scores) == 1 else list(scores)}
    )
