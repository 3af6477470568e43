"""OpenVINO IR: a graph as XML, and beside it the weights in a file of their own (``model.xml`` and ``model.bin``).

Entry: ``file`` (the XML; the weights are beside it), and what :mod:`.onnx` says of ``inputs``, ``outputs``, ``casts``.

Specification: https://docs.openvino.ai/2025/documentation/openvino-ir-format.html.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.formats import _graph_names
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.formats._openvino.model import Layer, Model, Net
    from vitrify.formats._openvino.silent import openvino

FILE = "model.xml"
WEIGHTS = "model.bin"

_HEAD = 1 << 16
_STANDARD = re.compile(r"|opset[0-9]{1,2}|util|ie_internal_opset|type_relaxed_opset|experimental")
"""Operator sets that OpenVINO itself brings; the empty one is that of files from before 2020."""
_DOCUMENT = re.compile(rb"\s*+(\xef\xbb\xbf)?+\s*+<(\?xml|net|!--|!DOCTYPE)")
_TOOLS = {"Runtime": "openvino", "MO": "model_optimizer"}
_READ = "find out which library brings it and what it does; allow it by its exact name if it is yours"


class OpenVino:
    """The format of OpenVINO models: the XML file alone, or a directory with it and its weights."""

    def detect(self, files: Files) -> bool:
        """Say whether it is XML whose first element is a ``net`` with a version, or a directory of that and weights."""
        names = files.names()
        if only(files) is None and not all(name.endswith((".xml", ".bin")) for name in names):
            return False
        return sum(_is_model(files.map(name)) for name in names) == 1

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return versions, producer, inputs, outputs, constants and operators.

        Raises:
            MalformedError: It is no OpenVINO model.
        """
        from vitrify.formats import _facts

        name, model = _parse(files, entry)
        layers = list(model.net.walk())
        told = model.notes.get("rt_info", {})
        told = told if isinstance(told, dict) else {}
        found: dict[str, Any] = {
            "producer": f"OpenVINO {told.get('Runtime_version') or told.get('MO_version') or ''}".strip(),
            "versions": {"ir": model.version, **_versions(told)},
            "inputs": [_port(one, one.outputs) for one in model.net.layers if one.type in {"Parameter", "Input"}],
            "outputs": [_port(one, one.inputs) for one in model.net.layers if one.type == "Result"],
            **_facts.weights(_constants(layers)),
            "operators": _facts.counts(_title(one) for one in layers),
            "metadata": model.notes,
        }
        weights = _weights(files, name)
        found["weights_file"] = {"name": _beside(name), "bytes": None if weights is None else len(weights)}
        found |= {"quantisation": quantised} if (quantised := _quantisation(layers, model)) else {}
        needs = [f"the extension operator {one}" for one in sorted({_title(one) for one in layers if _foreign(one)})]
        needs += [f"the weights, {_beside(name)}"] if weights is None and any(one.constant for one in layers) else []
        return {**found, "needs": needs} if needs else found

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield operators of extension libraries, and constants that lie outside of the weights.

        Raises:
            MalformedError: It is no OpenVINO model.
        """
        from vitrify.core.report import Finding

        name, model = _parse(files, entry)
        layers = list(model.net.walk())
        for title in sorted({_title(one) for one in layers if _foreign(one)}):
            message = f"the operator {title} is native code of an extension library, which somebody has to load"
            yield Finding(place=name, message=message, rule="custom-operator", subject=title, remedy=_READ)
        weights = _weights(files, name)
        if weights is None:
            return
        for one in layers:
            if one.constant and one.constant.offset + one.constant.size > len(weights):
                at, size = one.constant.offset, one.constant.size
                message = f"{one.name!r:.100} takes {size} bytes at {at} of {_beside(name)}, which has {len(weights)}"
                remedy = "get both files again: they do not belong together, or were made to read past the end"
                yield Finding(place=name, message=message, rule="out-of-bounds", subject=one.name, remedy=remedy)

    def beside(self, files: Files, entry: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the weights' name, which is the graph's."""
        return (_beside(_parse(files, entry)[0]),)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph, those of loops and conditions folded.

        Raises:
            MalformedError: It is no OpenVINO model.
        """
        return _drawn(_parse(files, entry)[1].net, "main")

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a model as ``model.xml`` and ``model.bin``, its weights as they are.

        Raises:
            UnsupportedModelError: The example has another number of inputs, or OpenVINO cannot write the model.
        """
        from vitrify.formats._openvino.live import port_name, serialised

        entry: dict[str, Any] = {"file": FILE}
        if example is not None:
            inputs, outputs = ([port_name(one) for one in side] for side in (model.inputs, model.outputs))
            entry |= _graph_names.match(inputs, outputs, example)
        try:
            written = serialised(model)
        except RuntimeError as error:
            msg = f"OpenVINO cannot write this model: {error}"
            raise UnsupportedModelError(msg, remedy="write it with openvino.save_model, then: vitrify pack") from error
        for name, content in zip((FILE, WEIGHTS), written, strict=True):
            with sink.open(name, "weight") as stream:
                stream.write(content)
        return Written(entry=entry)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> openvino.Model:
        """Return the model.

        Raises:
            UntrustedCodeError: It has operators of extension libraries that were not allowed.
            MalformedError: It is no OpenVINO model, or its weights are not with it.
        """
        from vitrify.formats._openvino.live import opened

        name, model = _parse(files, entry)
        layers = list(model.net.walk())
        allow.require({_title(one) for one in layers if _foreign(one)}, what=name)
        weights = _weights(files, name)
        held = [one.constant for one in layers if one.constant]
        if needed := max((one.offset + one.size for one in held), default=0):
            found = 0 if weights is None else len(weights)
            if needed > found:
                msg = f"{name}: its constants lie in {needed} bytes of {_beside(name)}, and there are {found}"
                raise MalformedError(msg, remedy="keep both files together: the XML and the weights beside it")
        return opened(files.read(name), bytes(weights or b""), where=name)


def _is_model(view: memoryview) -> bool:
    start = bytes(view[:_HEAD])
    # A look at the first bytes saves the import of the reader for every file that is no XML.
    if not _DOCUMENT.match(start):
        return False
    from vitrify.reading.xml import root

    found = root(start)
    return found is not None and found.tag == "net" and (not found.attributes or "version" in found.attributes)


def _parse(files: Files, entry: Mapping[str, Any]) -> tuple[str, Model]:
    from vitrify.formats._openvino.model import parse

    found = [name for name in files.names() if name.endswith(".xml")]
    name = str(entry.get("file") or only(files) or (found[0] if len(found) == 1 else ""))
    if not name:
        refuse("this directory", "is not one OpenVINO model: expected one .xml file")
    return name, parse(files.map(name), where=name)


def _beside(name: str) -> str:
    return f"{name.removesuffix('.xml')}.bin"


def _weights(files: Files, name: str) -> memoryview | None:
    """Return the weights; None where only the graph is at hand."""
    return files.map(_beside(name)) if _beside(name) in files.names() else None


def _title(layer: Layer) -> str:
    return f"{layer.version}.{layer.type}" if _foreign(layer) else layer.type


def _foreign(layer: Layer) -> bool:
    return not _STANDARD.fullmatch(layer.version)


def _port(layer: Layer, ports: tuple[Any, ...]) -> dict[str, Any]:
    from vitrify.formats import _facts

    port = ports[0] if ports else None
    name = layer.label or (port.names if port else "") or layer.name
    return _facts.port(name, port.type if port else "", port.shape if port else None)


def _constants(layers: Iterable[Layer]) -> Iterator[dict[str, Any]]:
    from vitrify.formats import _facts

    for one in layers:
        if held := one.constant:
            yield {**_facts.tensor(one.name, held.type, held.shape, held.size), "offset": held.offset}


def _versions(told: dict[str, Any]) -> dict[str, str]:
    """Return the versions of the tools, by their names: of ``Runtime_version``, OpenVINO's."""
    written = {key.removesuffix("_version"): value for key, value in told.items() if key.endswith("_version")}
    return {_TOOLS.get(tool, tool.lower()): value for tool, value in written.items() if isinstance(value, str)}


def _quantisation(layers: Iterable[Layer], model: Model) -> dict[str, Any]:
    """Return what shows that it was quantised: operators, constants of few bits, what NNCF wrote down."""
    from vitrify.formats import _facts

    listed = list(layers)
    found: dict[str, Any] = {}
    if operators := _facts.counts(one.type for one in listed if one.type == "FakeQuantize"):
        found["operators"] = operators
    small = ("i8", "u8", "i4", "u4", "i2", "u2", "u1", "nf4", "f8", "f4")
    if types := _facts.counts(
        _facts.element(one.constant.type) for one in listed if one.constant and one.constant.type.startswith(small)
    ):
        found["types"] = types
    told = model.notes.get("rt_info")
    if isinstance(told, dict) and "nncf" in told:
        found["nncf"] = told["nncf"]
    return found if "operators" in found or "nncf" in found else {}


def _drawn(net: Net, name: str) -> Graph:
    from vitrify.core.graph import Graph, Node, Tensor

    names = {
        (one.id, port.id): _tensor_name(one, place) for one in net.layers for place, port in enumerate(one.outputs)
    }
    held = {one.id for one in net.layers if one.constant}
    tensors = {
        names[one.id, port.id]: Tensor(type=port.type, shape=port.shape, weight=one.id in held)
        for one in net.layers
        for port in one.outputs
    }
    fed = {key: names.get(source, "") for key, source in net.edges.items()}
    ends = {"Parameter", "Input", "Result"}
    nodes = tuple(
        Node(
            operator=_title(one),
            name=one.name,
            inputs=tuple(fed.get((one.id, port.id), "") for port in one.inputs),
            outputs=tuple(names[one.id, port.id] for port in one.outputs),
            attributes={key: value[:60] for key, value in one.attributes.items()},
            graphs={key: _drawn(body, key) for key, body in one.bodies.items()},
        )
        for one in net.layers
        if one.type not in ends and not one.constant
    )
    inputs = tuple(names[one.id, port.id] for one in net.layers if one.type in ends for port in one.outputs)
    outputs = tuple(fed.get((one.id, port.id), "") for one in net.layers if one.type == "Result" for port in one.inputs)
    return Graph(name=net.name or name, inputs=inputs, outputs=outputs, nodes=nodes, tensors=tensors)


def _tensor_name(layer: Layer, place: int) -> str:
    return layer.name if place == 0 else f"{layer.name}:{place}"
