"""The Open Inference Protocol's ``infer`` request over REST: JSON, and Triton's binary tensors behind it.

The native plane reads the usual requests itself; this is what it is measured by, and what knows the rest.

Source: https://github.com/kserve/open-inference-protocol, ``specification/protocol/inference_rest.md``, and
``docs/protocol`` of https://github.com/triton-inference-server/server: ``extension_binary_data.md``,
``extension_parameters.md``, ``extension_classification.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError, NotOfferedError, SignatureError
from vitrify.serve import ports
from vitrify.serve.ports import BYTES, DTYPES
from vitrify.serve.protocols import _json
from vitrify.serve.protocols._asking import ask
from vitrify.serve.protocols._binary import element_bytes, from_binary
from vitrify.serve.protocols._elements import elements

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Served
    from vitrify.serve.ports import Port
    from vitrify.serve.protocols._json import Raw
    from vitrify.serve.values import Infer
    from vitrify.serve.web import Call

    Array = np.ndarray[Any, Any]

HEADER = "inference-header-content-length"
RANK = 32
"""The most dimensions of a tensor."""
TENSORS = 10_000
"""The most inputs, or outputs, of one request."""
_SHARED = "shared_memory_region"
_OWN = {"timeout", "priority", "binary_data_output"}
_MOST = 2**63 - 1
_WIDEST = 8
"""Bytes of the widest element."""
_LAST = 2**32 - 1
"""The last of all priorities."""


@dataclass(frozen=True)
class Wanted:
    """One output that was asked for.

    Attributes:
        name: Which.
        binary: Whether in binary; None where it says nothing itself.
        classes: So many of the largest values, as text with their labels; 0 for the values themselves.
    """

    name: str
    binary: bool | None = None
    classes: int = 0


@dataclass(frozen=True)
class Asked:
    """A decoded request.

    Attributes:
        infer: For the engine.
        wanted: How the outputs are to be written; empty for all.
        binary: Whether outputs that say nothing themselves are binary.
    """

    infer: Infer
    wanted: tuple[Wanted, ...] = ()
    binary: bool = False


def read(call: Call, served: Served, version: str) -> Asked:
    """Return what a request says.

    Args:
        call: Its path has been read already.
        served: The model version by whose signature it is read.
        version: Which version must answer; empty where the rollout decides.

    Raises:
        MalformedError: The body is not what the protocol allows.
        SignatureError: Data do not fit their datatype or shape.
        LimitExceededError: It is nested too deep, or has too many parts.
        NotOfferedError: It wants shared memory.
    """
    length = _length(call)
    if not length and HEADER in call.headers:
        inputs = {served.inputs[0].name: _raw_input(call.body, served)} if served.inputs else {}
        return Asked(ask(call, served.name, inputs, version=version), binary=True)
    head, tail = call.body[:length], memoryview(call.body)[length:]
    body = _json.request(head)
    parameters = _parameters(body, "parameters")
    if "inputs" not in body:
        msg = "the body has no member inputs: an array of objects with name, shape, datatype and data"
        raise MalformedError(msg)
    inputs = _inputs(body["inputs"], tail, served)
    wanted = _wanted(body["outputs"]) if _given(body, "outputs") else ()
    infer = ask(
        call,
        served.name,
        inputs,
        version=version,
        outputs=tuple(one.name for one in wanted),
        id_=_json.plain(body["id"], "id", str) if _given(body, "id") else "",
        parameters={name: value for name, value in parameters.items() if name not in _OWN},
        timeout_us=_number(parameters, "timeout"),
        priority=min(_number(parameters, "priority"), _LAST),
        key=str(parameters.get("sequence_id") or ""),
    )
    return Asked(infer, wanted, binary=_flag(parameters, "binary_data_output", "parameters") or False)


def _length(call: Call) -> int:
    """Return how many bytes of the body are JSON."""
    if (text := call.headers.get(HEADER)) is None:
        return len(call.body)
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= len(call.body)):  # noqa: PLR2004
        msg = f"header {HEADER}: {text[:40]!r}, expected a number from 0 to {len(call.body)}, the length of the body"
        raise MalformedError(msg)
    return int(text)


def _inputs(text: Raw, tail: memoryview, served: Served) -> Arrays:
    arrays: Arrays = {}
    known = {port.name: port for port in served.inputs}
    for index, tensor in enumerate(_json.objects(text, "inputs", TENSORS)):
        where = f"inputs[{index}]"
        name, datatype, shape = _head(tensor, where)
        if name in arrays:
            msg = f"{where}.name: {name[:100]!r} is given twice"
            raise SignatureError(msg)
        parameters = _parameters(tensor, f"{where}.parameters")
        if _SHARED in parameters:
            msg = f"{where}.parameters.{_SHARED}: this server has no shared memory"
            raise NotOfferedError(msg, remedy="send the data in the request")
        if (size := _number(parameters, "binary_data_size", f"{where}.parameters", none=-1)) >= 0:
            if "data" in tensor:
                msg = f"{where}: both data and parameters.binary_data_size; expected one of them"
                raise MalformedError(msg)
            if size > len(tail):
                msg = f"{where}.parameters.binary_data_size: {size} bytes, but {len(tail)} are left of the body"
                raise MalformedError(msg)
            array, tail = from_binary(tail[:size], datatype, shape, where=where), tail[size:]
        elif "data" in tensor:
            gaps, mixed = _allowed(known.get(name), served)
            array = elements(bytes(tensor["data"]), datatype, shape, where=f"{where}.data", gaps=gaps, mixed=mixed)
        else:
            msg = f"{where}: no data; expected the member data, or parameters.binary_data_size and bytes after the JSON"
            raise MalformedError(msg)
        # What the signature does not know is the engine's to refuse.
        arrays[name] = ports.to_session(array, known[name]) if name in known else array
    if len(tail):
        msg = f"{len(tail)} bytes after the JSON belong to no input; expected as many as binary_data_size says"
        raise MalformedError(msg)
    return arrays


def _allowed(port: Port | None, served: Served) -> tuple[bool, bool]:
    """Return whether values of an input may be missing, and whether text may be numbers too."""
    if port is None:
        return False, False
    return port.field.nullable or served.signature.is_table, port.field.dtype == "object"


def _head(tensor: Mapping[str, Raw], where: str) -> tuple[str, str, tuple[int, ...]]:
    if missing := [name for name in ("name", "shape", "datatype") if name not in tensor]:
        msg = f"{where}: no {' and no '.join(missing)}"
        raise MalformedError(msg)
    name = _json.plain(tensor["name"], f"{where}.name", str)
    datatype = _json.plain(tensor["datatype"], f"{where}.datatype", str)
    if datatype != BYTES and datatype not in DTYPES:
        msg = f"{where}.datatype: {datatype[:40]!r}, expected one of {', '.join([*DTYPES, BYTES])}"
        raise SignatureError(msg)
    sizes: Sequence[Any] = _json.plain(tensor["shape"], f"{where}.shape", list[Any])
    if len(sizes) > RANK or not all(type(size) is int and 0 <= size <= _MOST for size in sizes):
        msg = f"{where}.shape: {str(list(sizes))[:80]}, expected at most {RANK} integers from 0"
        raise SignatureError(msg)
    if math.prod(size or 1 for size in sizes) > _MOST // _WIDEST:  # NumPy counts so, although there may be nothing
        msg = f"{where}.shape: {str(list(sizes))[:80]} is larger than any array"
        raise SignatureError(msg)
    return name, datatype, tuple(sizes)


def _given(members: Mapping[str, Raw], name: str) -> bool:
    """Say whether a member is there; to some clients null is the same as nothing."""
    return name in members and bytes(members[name]) != b"null"


def _wanted(text: Raw) -> tuple[Wanted, ...]:
    found: dict[str, Wanted] = {}
    for index, output in enumerate(_json.objects(text, "outputs", TENSORS)):
        where = f"outputs[{index}]"
        if "name" not in output:
            msg = f"{where}: no name"
            raise MalformedError(msg)
        name = _json.plain(output["name"], f"{where}.name", str)
        parameters = _parameters(output, f"{where}.parameters")
        if _SHARED in parameters:
            msg = f"{where}.parameters.{_SHARED}: this server has no shared memory"
            raise NotOfferedError(msg, remedy="take the data from the answer")
        if name in found:
            msg = f"{where}.name: {name[:100]!r} is asked for twice"
            raise SignatureError(msg)
        binary = _flag(parameters, "binary_data", f"{where}.parameters")
        found[name] = Wanted(name, binary, _number(parameters, "classification", f"{where}.parameters"))
    return tuple(found.values())


def _parameters(members: Mapping[str, Raw], where: str) -> dict[str, Any]:
    if not _given(members, "parameters"):
        return {}
    found = _json.members(members["parameters"], where)
    return {name: _json.plain(value, f"{where}.{name[:80]}") for name, value in found.items()}


def _number(parameters: Mapping[str, Any], name: str, where: str = "parameters", none: int = 0) -> int:
    """Return a parameter that is a number from 0, or the text of one, as ``timeout`` may be; ``none`` if not given."""
    if name not in parameters:
        return none
    value = parameters[name]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:  # noqa: PLR2004
        value = int(value)
    if type(value) is not int or not 0 <= value <= _MOST:
        msg = f"{where}.{name}: {str(value)[:40]!r}, expected a number from 0"
        raise MalformedError(msg)
    return value


def _flag(parameters: Mapping[str, Any], name: str, where: str) -> bool | None:
    value = parameters.get(name)
    if value is not None and type(value) is not bool:
        msg = f"{where}.{name}: {str(value)[:40]!r}, expected true or false"
        raise MalformedError(msg)
    return value


def _raw_input(body: bytes, served: Served) -> Array:
    """Return the one input of a request that is nothing but its bytes."""
    if len(served.inputs) != 1:
        msg = f"a raw binary request is for a model with one input; {served.name!r} has {len(served.inputs)}"
        raise SignatureError(msg, remedy="send JSON, or JSON with binary data after it")
    port = served.inputs[0]
    free = [axis for axis, size in enumerate(port.shape) if size < 0]
    known = math.prod(size for size in port.shape if size >= 0)
    if port.datatype == BYTES:
        if known != 1:
            msg = f"a raw binary request is one element of BYTES; input {port.name!r} has the shape {list(port.shape)}"
            raise SignatureError(msg)
        array = np.empty([1] * len(port.shape), object)
        array.ravel()[:] = [body]
        return ports.to_session(array, port)
    count, rest = divmod(len(body), element_bytes(port.datatype))
    rows = count // known if known else 0
    # More than one size that may change: all are 1 but the last.
    shape = tuple(size if size >= 0 else rows if axis == free[-1] else 1 for axis, size in enumerate(port.shape))
    if rest or math.prod(shape) != count:
        msg = f"{len(body)} bytes are no {port.datatype} of the shape {list(port.shape)}, the input {port.name!r}"
        raise SignatureError(msg)
    return from_binary(memoryview(body), port.datatype, shape, where=f"input {port.name!r}")
