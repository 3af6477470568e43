"""The Open Inference Protocol's ``infer`` answer over REST: JSON, and Triton's binary tensors behind it.

Outputs are flat, in row-major order. NaN and the infinities are the strings ``NaN``, ``Infinity`` and ``-Infinity``:
the protocol has no word for them, and JSON no number. What is missing is null; in binary it is an empty text or, in a
column of numbers, what NumPy fills it with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import SignatureError, VitrifyError
from vitrify.serve import ports
from vitrify.serve.ports import BYTES
from vitrify.serve.protocols import _data, _json
from vitrify.serve.protocols._binary import to_binary
from vitrify.serve.protocols._classification import classified
from vitrify.serve.protocols._oip_rest_request import HEADER, Wanted
from vitrify.serve.web import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from vitrify.serve.ports import Port
    from vitrify.serve.protocols._oip_rest_request import Asked
    from vitrify.serve.values import Reply

    Array = np.ndarray[Any, Any]

OCTETS = "application/octet-stream"


def write(reply: Reply, known: Mapping[str, Port], asked: Asked) -> Answer:
    """Return the answer to a request.

    Args:
        reply: What the model said.
        known: What its outputs are.
        asked: How the outputs are to be written.

    Raises:
        SignatureError: An output cannot stand in JSON.
    """
    wanted = {one.name: one for one in asked.wanted}
    outputs, raws = [], []
    for name, array in reply.outputs.items():
        one = wanted.get(name, Wanted(name))
        port = known[name]
        datatype = BYTES if one.classes else port.datatype
        plain = classified(array, one.classes, port.field, f"output {name!r}") if one.classes else array
        output: dict[str, Any] = {"name": name, "shape": list(plain.shape), "datatype": datatype}
        if asked.binary if one.binary is None else one.binary:
            raws.append(to_binary(plain if one.classes else ports.to_wire(plain, port), datatype))
            output["parameters"] = {"binary_data_size": len(raws[-1])}
        else:
            output["data"] = _flat(plain, name)
        outputs.append(output)
    head = msgspec.json.encode(said(reply) | {"outputs": outputs})
    if not raws:
        return Answer(200, head, {"content-type": _json.JSON})
    return Answer(200, b"".join([head, *raws]), {"content-type": OCTETS, HEADER: str(len(head))})


def said(reply: Reply) -> dict[str, Any]:
    """Return what an answer says beside its outputs: which version of which artifact made it."""
    digest = {"digest": reply.digest} if reply.digest else {}
    found: dict[str, Any] = {"model_name": reply.model, "model_version": reply.version}
    if reply.id:
        found["id"] = reply.id
    if parameters := {**reply.parameters, **digest}:
        found["parameters"] = parameters
    return found


def _flat(array: Array, name: str) -> msgspec.Raw:
    try:
        return msgspec.Raw(b"[" + _data.flat(array, _data.STRINGS, _data.as_text) + b"]")
    except VitrifyError as error:
        msg = f"output {name!r}: {error.message}"
        raise SignatureError(msg, remedy=error.remedy) from error
