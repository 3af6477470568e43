"""From fitted results of statsmodels to ONNX: the linear index and the inverse of its link, in double.

Options: ``precision``, ``opset``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._statsmodels.predictor import POWERS
from vitrify.formats.onnx import Onnx
from vitrify.formats.statsmodels import Statsmodels
from vitrify.transforms.convert._building.data import Data, Frame, matrix
from vitrify.transforms.convert._building.graph import F64, Graph, Tensor
from vitrify.transforms.convert._building.model import opset_of, to_model, used_inputs
from vitrify.transforms.convert._building.ports import Ports, declare_inputs, declare_outputs
from vitrify.transforms.convert._building.steps import Outcome, refuse
from vitrify.transforms.convert._numerics.elementary import arctan
from vitrify.transforms.convert._numerics.erf import erf

if TYPE_CHECKING:
    import onnx

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject
    from vitrify.core.signature import Signature
    from vitrify.formats._statsmodels.predictor import Predictor

_EXOG, _OFFSET, _EXPOSURE = "exog", "offset", "exposure"


class StatsmodelsToOnnx:
    """The step from ``statsmodels`` to ``onnx``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List what the graph cannot be fed with, and a link that has no counterpart."""
        try:
            _converted(source, step)
        except UnsupportedModelError as error:
            return error.problems or (Finding(place="model", message=error.message, remedy=error.remedy),)
        return ()

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the ONNX model."""
        model, ports = _converted(source, step)
        written = Onnx().write(model, sink, None)
        kept = {value.name for value in model.graph.input}
        names = {
            "inputs": {ours: name for ours, name in ports.inputs.items() if name in kept},
            "outputs": ports.outputs,
            "casts": ports.casts,
        }
        return Written(entry={**written.entry, **names}, notes=written.notes)


def _converted(source: Subject, step: Step) -> tuple[onnx.ModelProto, Ports]:
    predictor: Predictor = Statsmodels().read(source.files, source.document.entry, source.allow)
    signature = source.document.signature
    assert signature is not None
    graph, ports = Graph(opset_of(step.options), step.options.get("precision") or "source"), Ports()
    data, unfit, more = _inputs(graph, signature, ports)
    index = _index(graph, predictor, data, more)
    answer = _answer(graph, predictor, index)
    several = answer if predictor.labels else None
    declare_outputs(graph, signature, Outcome(prediction=answer, probability=several), ports)
    if problems := [finding for name, finding in unfit.items() if name in used_inputs(graph)]:
        msg = f"{len(problems)} input(s) that the graph cannot take"
        raise UnsupportedModelError(msg, problems=problems)
    properties = {"vitrify.source": "statsmodels", "vitrify.model": predictor.model}
    return to_model(graph, name=predictor.model, properties=properties), ports


def _inputs(graph: Graph, signature: Signature, ports: Ports) -> tuple[Data, dict[str, Finding], dict[str, Tensor]]:
    """Return the matrix or table, what cannot be fed, and offset and exposure, where they are given."""
    names = [field.name for field in signature.inputs]
    if signature.container == "dict" and _EXOG in names:
        order = dict(zip(names, names, strict=True))
    elif signature.container == "tuple":
        order = dict(zip((_EXOG, _OFFSET, _EXPOSURE), names, strict=False))
    else:
        data, unfit = declare_inputs(graph, signature, ports)
        return data, unfit, {}
    _, unfit = declare_inputs(graph, signature, ports)
    fits = {name: finding for name, finding in unfit.items() if finding.place != "signature"}
    kinds = {value.name: np.dtype(field.dtype) for value, field in zip(graph.inputs, signature.inputs, strict=True)}
    tensors = {role: Tensor(ports.inputs[name], kinds[ports.inputs[name]]) for role, name in order.items()}
    return tensors.pop(_EXOG), fits, tensors


def _index(graph: Graph, predictor: Predictor, data: Data, more: dict[str, Tensor]) -> Tensor:
    """Return the linear index: (rows,), or (rows, classes - 1)."""
    params = predictor.params
    if predictor.columns is None:
        x = matrix(graph, data, F64)
    else:
        if not isinstance(data, Frame):
            refuse("was fitted with a formula, and is called without a table", "save it with a data frame as example")
        columns = [data.named(name) for name in predictor.columns if name]
        x = matrix(graph, Frame(tuple(columns)), F64) if columns else _nothing(graph, data)
        params = params[[place for place, name in enumerate(predictor.columns) if name]]
    index = graph.matmul(x, params)
    if predictor.columns is not None and "" in predictor.columns:
        constant = predictor.params[[place for place, name in enumerate(predictor.columns) if not name]].sum(axis=0)
        index = graph.binary("Add", index, constant)
    for name, tensor in more.items():
        value = graph.cast(tensor, F64)
        index = graph.binary("Add", index, graph.unary("Log", value) if name == _EXPOSURE else value)
    return index


def _nothing(graph: Graph, data: Frame) -> Tensor:
    """Return a matrix without columns, with the rows of a table."""
    rows = graph.rows(data.columns[0].tensor)
    shape = graph.op("Concat", rows, np.array([0]), dtype=np.int64, axis=0)
    return graph.op("ConstantOfShape", shape, dtype=F64, value=np.zeros(1))


def _answer(graph: Graph, predictor: Predictor, index: Tensor) -> Tensor:
    if predictor.model == "MNLogit":
        powers = graph.unary("Exp", index)
        first = graph.op("Slice", powers, np.array([0]), np.array([1]), np.array([1]), dtype=powers.dtype)
        ones = graph.op("Expand", graph.constant(np.ones((1, 1))), graph.op("Shape", first, dtype=np.int64), dtype=F64)
        every = graph.concat([ones, powers])
        return graph.binary("Div", every, graph.reduce("ReduceSum", every, 1, keep=True))
    if predictor.thresholds is not None:
        return _between(graph, predictor, index)
    return _mean(graph, predictor, index)


def _between(graph: Graph, predictor: Predictor, index: Tensor) -> Tensor:
    """Return the share of the latent variable between the ends of each class."""
    assert predictor.thresholds is not None
    ends = np.concatenate(([-np.inf], predictor.thresholds, [np.inf]))
    column = graph.column(index)
    cdf = _logistic if predictor.distribution == "logistic" else _normal
    high, low = (cdf(graph, graph.binary("Sub", side, column)) for side in (ends[1:], ends[:-1]))
    return graph.op("Max", graph.binary("Sub", high, low), np.zeros(()), dtype=F64)


def _logistic(graph: Graph, x: Tensor) -> Tensor:
    return graph.sigmoid(x)


def _normal(graph: Graph, x: Tensor) -> Tensor:
    """Return the normal distribution function."""
    half = np.array(0.5)
    return graph.binary(
        "Mul", graph.binary("Add", erf(graph, graph.binary("Mul", x, np.sqrt(half))), np.ones(())), half
    )


def _mean(graph: Graph, predictor: Predictor, index: Tensor) -> Tensor:  # noqa: PLR0911 (one return a link)
    """Return the inverse of the link."""
    one = np.ones(())
    match predictor.link:
        case "Logit":
            return graph.sigmoid(index)
        case "Probit":
            return _normal(graph, index)
        case "Log":
            return graph.unary("Exp", index)
        case "LogC":
            return graph.binary("Sub", one, graph.unary("Exp", index))
        case "CLogLog":
            return graph.binary("Sub", one, _falling(graph, index))
        case "LogLog":
            return _falling(graph, graph.unary("Neg", index))
        case "Cauchy":
            turned = graph.binary("Div", arctan(graph, index), np.array(np.pi))
            return graph.binary("Add", turned, np.array(0.5))
        case "NegativeBinomial":
            rest = graph.binary("Sub", one, graph.unary("Exp", graph.unary("Neg", index)))
            return graph.binary("Div", np.array(-1.0), graph.binary("Mul", rest, np.array(predictor.number)))
    assert predictor.link in POWERS
    return index if predictor.number == 1 else graph.binary("Pow", index, np.array(1 / predictor.number))


def _falling(graph: Graph, x: Tensor) -> Tensor:
    """Return ``exp(-exp(x))``."""
    return graph.unary("Exp", graph.unary("Neg", graph.unary("Exp", x)))
