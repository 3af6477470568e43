"""OpenVINO's own objects: read from bytes and written to them, the same model to the same bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.formats._openvino.silent import openvino

if TYPE_CHECKING:
    from collections.abc import Iterator

_BODIES = ("If", "Loop", "TensorIterator")


def opened(xml: bytes, weights: bytes, *, where: str) -> openvino.Model:
    """Return a model.

    Raises:
        MalformedError: OpenVINO cannot read it.
    """
    try:
        return openvino.Core().read_model(xml, weights)
    except RuntimeError as error:
        msg = f"{where}: OpenVINO {openvino.__version__} cannot read it: {str(error).strip()}"
        raise MalformedError(msg) from error


def serialised(model: openvino.Model) -> tuple[bytes, bytes]:
    """Return the XML and the weights. The model itself is not changed."""
    copy = model.clone()
    _name(model, copy)
    with tempfile.TemporaryDirectory() as folder:
        xml, weights = Path(folder) / "model.xml", Path(folder) / "model.bin"
        openvino.serialize(copy, xml, weights)
        return xml.read_bytes(), weights.read_bytes()


def port_name(port: Any) -> str:
    """Return the name of an input or output: the first of its tensor's names, else that of its node."""
    return min(port.names) if port.names else str(port.node.get_friendly_name())


def _name(model: Any, copy: Any) -> None:
    """Name the nodes of a copy that have no name of their own: OpenVINO counts those through the whole process."""
    listed = list(zip(model.get_ordered_ops(), copy.get_ordered_ops(), strict=True))
    taken = {node.get_friendly_name() for node, _ in listed if not _is_numbered(node)}
    for place, (node, twin) in enumerate(listed):
        if _is_numbered(node):
            name = f"{node.get_type_name()}_{place}"
            while name in taken:
                name = f"{name}_"
            taken.add(name)
            twin.set_friendly_name(name)
        for pair in zip(_bodies(node), _bodies(twin), strict=True):
            _name(*pair)


def _is_numbered(node: Any) -> bool:
    return bool(node.get_friendly_name() == node.get_name())


def _bodies(node: Any) -> Iterator[Any]:
    if node.get_type_name() == "If":
        yield from (node.get_then_body(), node.get_else_body())
    elif node.get_type_name() in _BODIES:
        yield node.get_function()
