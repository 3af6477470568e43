"""The elements that predict, before they have their place in a document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import element

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Fields

FLOAT = {"x-mathContext": "float"}
"""Adds and divides in float32: an attribute of JPMML's; other evaluators compute in double."""


@dataclass(frozen=True)
class Model:
    """One model.

    Attributes:
        tag: Its element.
        function: ``regression`` or ``classification``.
        fields: The fields that it looks at.
        content: What stands behind its schema.
        attributes: Of its element.
        output: What it gives, by ``OutputField``.
        local: Fields that are computed inside it.
        classes: The labels of a classification.
        target: The field that it predicts, where its content names it.
    """

    tag: str
    function: str
    fields: tuple[str, ...]
    content: tuple[Element, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    output: tuple[Element, ...] = ()
    local: tuple[Element, ...] = ()
    classes: tuple[Any, ...] | None = None
    target: str | None = None

    def element(
        self,
        *,
        target: str | None = None,
        inputs: Sequence[str] = (),
        outputs: Iterable[Element] = (),
        local: Iterable[Element] = (),
    ) -> Element:
        """Return it as XML.

        Args:
            target: The target's field, of the model that predicts it.
            inputs: The fields of its schema, where they are not its own.
            outputs: What it gives beside its own.
            local: Fields that are computed inside it beside its own.
        """
        target = self.target or target
        schema = [element("MiningField", {"name": target, "usageType": "target"})] if target else []
        schema += [
            element("MiningField", {"name": name, "invalidValueTreatment": "asIs"}) for name in inputs or self.fields
        ]
        output, computed = [*self.output, *outputs], [*local, *self.local]
        return element(
            self.tag,
            {"functionName": self.function, **self.attributes},
            element("MiningSchema", {}, *schema),
            *([element("Output", {}, *output)] if output else []),
            *([element("LocalTransformations", {}, *computed)] if computed else []),
            *self.content,
        )


def output(name: str, feature: str, *expression: Element, value: Any = None, dtype: str = "double") -> Element:
    """Return an ``OutputField``."""
    optype = "continuous" if dtype in {"double", "float"} else "categorical"
    about = {"name": name, "optype": optype, "dataType": dtype, "feature": feature, "value": value}
    return element("OutputField", about, *expression)


def label_type(classes: Sequence[Any]) -> str:
    """Return PMML's type of class labels; whole numbers beyond 32 bits are text."""
    kinds = {type(label) for label in classes}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(abs(label) < 2**31 for label in classes):
        return "integer"
    return "double" if kinds == {float} else "string"


def labels(classes: Any) -> tuple[Any, ...]:
    """Return class labels as Python values."""
    return tuple(np.asarray(classes).tolist())


def answered(fields: Fields, classes: Sequence[Any]) -> tuple[tuple[Element, ...], dict[str, Any]]:
    """Return the output fields of a classifier that decides by itself, and their names."""
    name = fields.reserve("label")
    shares = [fields.reserve(f"probability({label})") for label in classes]
    made = [output(name, "predictedValue", dtype=label_type(classes))]
    made += [output(share, "probability", value=label) for share, label in zip(shares, classes, strict=True)]
    return tuple(made), {"label": name, "probability": shares}


def segments(models: Iterable[Model], method: str, *, target: str | None = None) -> Element:
    """Return models as the segments of one; the last predicts the target, if there is one."""
    listed = list(models)
    parts = [
        element(
            "Segment",
            {"id": str(place)},
            element("True"),
            model.element(target=target if place == len(listed) else None),
        )
        for place, model in enumerate(listed, start=1)
    ]
    return element("Segmentation", {"multipleModelMethod": method}, *parts)


def combined(models: Sequence[Model], method: str, **about: Any) -> Model:
    """Return one model of many: the sum or mean of what they give."""
    names = dict.fromkeys(name for model in models for name in model.fields)
    return Model("MiningModel", models[0].function, tuple(names), (segments(models, method),), **about)


def regression(
    names: Sequence[str], tables: Sequence[tuple[Any, Any]], function: str = "regression", **about: Any
) -> Model:
    """Return a ``RegressionModel``.

    Args:
        names: The fields.
        tables: Coefficients and intercept; of a classification one for each label, in the order of ``classes``.
        function: ``regression`` or ``classification``.
        about: More of :class:`Model`; ``order`` is the order in which a classification's labels stand.
    """
    classes = about.get("classes")
    order = about.pop("order", range(len(tables)))
    made = []
    for place in order:
        coefficients, intercept = tables[place]
        predictors = [
            element("NumericPredictor", {"name": name, "coefficient": float(weight)})
            for name, weight in zip(names, coefficients, strict=True)
            if weight != 0
        ]
        label = {} if classes is None else {"targetCategory": classes[place]}
        made.append(element("RegressionTable", {"intercept": float(intercept), **label}, *predictors))
    used = [name for at, name in enumerate(names) if any(table[0][at] != 0 for table in tables)]
    return Model("RegressionModel", function, tuple(used), tuple(made), **about)
