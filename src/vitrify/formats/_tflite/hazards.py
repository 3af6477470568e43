"""What in a TFLite model is code from elsewhere, or reaches out of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.formats._tflite.model import Model

INERT_CUSTOM = frozenset({"AudioSpectrogram", "Mfcc", "NumericVerify", "TFLite_Detection_PostProcess"})
"""Custom operators that every interpreter has, since it registers them with the built-in ones; they only compute."""

FLEX = "Flex"
"""With this before it the name is an operator of TensorFlow, which the select-TF library runs."""


def hazards(model: Model, where: str) -> Iterable[Finding]:
    """Yield what is code from elsewhere or reaches out."""
    for code in dict.fromkeys(model.codes):
        if code.custom and (finding := _custom(code.name, where)):
            yield finding
        if code.name == "DELEGATE":
            message = "hands a part of the graph to a delegate, a native library that the application loads"
            yield Finding(place=where, message=message, rule="native-code", subject="DELEGATE", verdict="not checked")
    used = [one for graph in model.graphs for one in graph.operators]
    for target in sorted({one.target for one in used if one.target or one.code.name == "STABLEHLO_CUSTOM_CALL"}):
        message = f"calls {target or 'something that is not named'}: code that is not in this file"
        yield Finding(place=where, message=message, rule="custom-call", subject=target, remedy=_READ)
    if any(tensor.external for graph in model.graphs for tensor in graph.tensors):
        for group in model.groups or ("",):
            message = f"takes tensors from another file, {group!r:.200}"
            remedy = "look at that file too, and see that its path does not lead elsewhere"
            yield Finding(place=where, message=message, rule="external-data", subject=group, remedy=remedy)


def _custom(name: str, where: str) -> Finding | None:
    if name in INERT_CUSTOM:
        return None
    if not name.startswith(FLEX):
        message = f"the operator {name} is native code that is not in this file: the application has to bring it"
        return Finding(place=where, message=message, rule="custom-operator", subject=name, remedy=_READ)
    from vitrify.formats._tensorflow.operators import OPAQUE, known, reach

    operator = name.removeprefix(FLEX)
    if reaches := reach(operator):
        message = f"the operator {operator} of TensorFlow {reaches.does}"
        return Finding(place=where, message=message, rule=reaches.rule, subject=name, remedy=_READ)
    if operator in OPAQUE:
        message = f"the operator {operator} {OPAQUE[operator]}"
        return Finding(place=where, message=message, rule="opaque-operator", subject=name, verdict="not checked")
    if not known(operator):
        message = f"the operator {operator} is not TensorFlow's own: a library that has it has to be loaded"
        return Finding(place=where, message=message, rule="custom-operator", subject=name, remedy=_READ)
    return None


_READ = "find out what it does; allow it by its exact name if it is yours"
