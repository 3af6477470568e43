"""One document of all that a walk found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vitrify.transforms.convert._pmml.elements import element, reference
from vitrify.transforms.convert._pmml.fields import kind
from vitrify.transforms.convert._pmml.models import Model, label_type, output, regression, segments
from vitrify.transforms.convert._pmml.walk import refuse

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from vitrify.core.signature import Signature
    from vitrify.transforms.convert._pmml.fields import Fields
    from vitrify.transforms.convert._pmml.walk import Answer

Shown = dict[str, str | list[str]]
"""Signature output to its field, or to the fields of a matrix."""


def outputs(signature: Signature, answer: Answer, fields: Fields) -> tuple[Answer, Shown]:
    """Return where the signature's outputs are; a table becomes outputs of a model that predicts nothing else.

    Raises:
        UnsupportedModelError: One of them is not there.
    """
    if answer.table is not None:
        answer = _shown(answer, fields)
    found: Shown = {}
    for item in signature.outputs:
        name = "label" if item.name == "prediction" and "prediction" not in answer.outputs else item.name
        if name not in answer.outputs:
            refuse(f"gives no output {item.name!r} in PMML", "convert it to onnx, which carries it")
        found[item.name] = answer.outputs[name]
        width = int(item.shape[1]) if len(item.shape) > 1 and isinstance(item.shape[1], int) else 1
        if len(listed(found[item.name])) != width:
            refuse(f"gives {item.name!r} of {width} columns, and PMML others", "convert it to onnx, which carries it")
    return answer, found


def _shown(answer: Answer, fields: Fields) -> Answer:
    assert answer.table is not None
    columns = answer.table.columns
    names = [fields.reserve(f"transformed_{place}") for place in range(len(columns))]
    made = tuple(
        output(name, "transformedValue", reference(column.name), dtype=kind(column.dtype))
        for name, column in zip(names, columns, strict=True)
    )
    model = replace(regression([], [([], 0.0)]), output=made, fields=tuple(column.name for column in columns))
    return replace(answer, chain=(model,), outputs={"transformed": names})


def document(name: str, answer: Answer, fields: Fields, shown: Shown) -> tuple[Element, Shown]:
    """Return the whole document, and where the outputs are in it."""
    *earlier, last = answer.chain
    made = {one.attrib["name"] for model in answer.chain for one in model.output}
    inputs, derived = fields.used(name for model in answer.chain for name in model.fields if name not in made)
    target = last.target or fields.reserve("target")
    targets = [_target(model.target, None) for model in answer.chain if model.target and model.target != target]
    if earlier:
        again, shown = _again(earlier, shown, fields)
        chain = (segments(answer.chain, "modelChain", target=target),)
        last = Model("MiningModel", last.function, (), chain, output=again, classes=last.classes)
    top = last.element(target=target, inputs=inputs, local=derived)
    whole = element(
        "PMML",
        {"version": "4.4"},
        element("Header", {"description": name}, element("Application", {"name": "Vitrify"})),
        element("DataDictionary", {}, *map(fields.declaration, inputs), *targets, _target(target, last.classes)),
        top,
    )
    return whole, shown


def _again(models: list[Model], shown: Shown, fields: Fields) -> tuple[tuple[Element, ...], Shown]:
    """Return outputs of the whole for what was asked for and is not of the last of its models."""
    inner = {one.attrib["name"]: one for model in models for one in model.output}
    asked = [name for names in shown.values() for name in listed(names) if name in inner]
    outer = {name: fields.reserve(f"{name}_given") for name in asked}
    made = tuple(
        output(outer[name], "transformedValue", reference(name), dtype=inner[name].attrib["dataType"]) for name in asked
    )
    renamed: Shown = {
        item: outer.get(names, names) if isinstance(names, str) else [outer.get(name, name) for name in names]
        for item, names in shown.items()
    }
    return made, renamed


def listed(names: str | list[str]) -> list[str]:
    """Return the fields of an output, one or more."""
    return [names] if isinstance(names, str) else names


def _target(name: str, classes: tuple[Any, ...] | None) -> Element:
    if classes is None:
        return element("DataField", {"name": name, "optype": "continuous", "dataType": "double"})
    values = [element("Value", {"value": label}) for label in classes]
    return element("DataField", {"name": name, "optype": "categorical", "dataType": label_type(classes)}, *values)
