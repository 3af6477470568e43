"""``ModelInferRequest`` to :class:`Infer`, and :class:`Reply` to ``ModelInferResponse``.

Contents are typed in every input, or raw in every input: never both. What an error says starts with the field that it
is about: ``inputs[1] 'age'.shape``. Outputs are always raw.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import MalformedError, NotOfferedError, ReferenceNotFoundError, SignatureError
from vitrify.serve.ports import to_session
from vitrify.serve.protocols._classification import classified
from vitrify.serve.protocols._messages import messages
from vitrify.serve.protocols._oip_grpc_tensors import array_of, datatype_of, raw_of
from vitrify.serve.values import Infer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Engine
    from vitrify.serve.ports import Port
    from vitrify.serve.rpc import RpcCall
    from vitrify.serve.values import Reply

STICKY = "x-vitrify-key"
"""The metadata by which sticky assignment goes."""
DIGEST = "digest"
"""The parameter of an answer that names the artifact."""

_CHOICE = "parameter_choice"
_SHARED = "shared_memory_region"
_CLASSIFICATION = "classification"
_OWN = {"timeout", "priority"}
_MICROSECONDS = 1_000_000
_MOST_PRIORITY = 2**32 - 1
_INT64, _UINT64 = 2**63, 2**64
_LONGEST_NUMBER = 18


def infer_of(request: Any, call: RpcCall, engine: Engine) -> Infer:
    """Return what a request asks.

    Raises:
        SignatureError: A tensor's datatype, shape and contents do not agree.
        MalformedError: A parameter means nothing.
        NotOfferedError: It wants shared memory.
        ReferenceNotFoundError: No such model or version is served.
    """
    ports = {port.name: port for port in engine.served(request.model_name, request.model_version).inputs}
    parameters = _values(request.parameters)
    return Infer(
        request.model_name,
        _inputs(request, ports),
        version=request.model_version,
        outputs=_outputs(request),
        id=request.id,
        parameters={name: value for name, value in parameters.items() if name not in _OWN},
        deadline=min(call.deadline, _deadline(parameters)),
        priority=_whole(parameters, "priority", _MOST_PRIORITY),
        client=call.client,
        key=call.metadata.get(STICKY, "") or str(parameters.get("sequence_id") or ""),
    )


def response_of(reply: Reply, request: Any, engine: Engine) -> Any:
    """Return what a reply says, in the form that its request asks for."""
    response = messages("inference").ModelInferResponse(
        model_name=reply.model, model_version=reply.version, id=reply.id
    )
    ports = ports_of(engine, reply.model, reply.version)
    best = {one.name: _classes(one) for one in request.outputs if _CLASSIFICATION in one.parameters}
    for name, array in reply.outputs.items():
        datatype, plain = datatype_of(name, array, ports)
        if name in best:
            field = ports[name].field if name in ports else None
            datatype, plain = "BYTES", classified(plain, best[name], field, f"output {name!r}")
        output = response.outputs.add(name=name, datatype=datatype)
        output.shape.extend(plain.shape)
        response.raw_output_contents.append(raw_of(datatype, plain))
    for name, value in reply.parameters.items():
        write(response.parameters[name], value)
    if reply.digest:
        response.parameters[DIGEST].string_param = reply.digest
    return response


def size_of(reply: Reply) -> int:
    """Return about how many bytes a reply has."""
    return sum(array.nbytes for array in reply.outputs.values())


def ports_of(engine: Engine, model: str, version: str) -> dict[str, Port]:
    """Return the outputs of the version that answered; none where it is gone in the meantime."""
    try:
        return {port.name: port for port in engine.served(model, version).outputs}
    except ReferenceNotFoundError:
        return {}


def value_of(parameter: Any) -> Any:
    """Return what an ``InferParameter`` holds; None for nothing."""
    choice = parameter.WhichOneof(_CHOICE)
    return None if choice is None else getattr(parameter, choice)


def write(parameter: Any, value: Any) -> None:
    """Put a value into an ``InferParameter``; what is neither number nor text becomes JSON."""
    match value:
        case bool():
            parameter.bool_param = value
        case int() if -_INT64 <= value < _INT64:
            parameter.int64_param = value
        case int() if 0 <= value < _UINT64:
            parameter.uint64_param = value
        case float():
            parameter.double_param = value
        case str():
            parameter.string_param = value
        case _:
            parameter.string_param = msgspec.json.encode(value).decode()


def _inputs(request: Any, ports: Mapping[str, Port]) -> Arrays:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        msg = f"raw_input_contents: {len(raw)} entries, expected {len(request.inputs)}, one for each of the inputs"
        raise SignatureError(msg)
    arrays: Arrays = {}
    for index, tensor in enumerate(request.inputs):
        where = f"inputs[{index}] {tensor.name[:200]!r}"
        if not tensor.name or tensor.name in arrays:
            msg = f"{where}.name: {'a second input of this name' if tensor.name else 'missing'}"
            raise SignatureError(msg)
        if _SHARED in tensor.parameters:
            raise _no_shared_memory(where)
        if raw and tensor.contents.ListFields():
            msg = f"{where}.contents: there are raw_input_contents too, and a request has either"
            raise SignatureError(msg)
        array = array_of(tensor, raw[index] if raw else None, where)
        port = ports.get(tensor.name)
        arrays[tensor.name] = array if port is None else to_session(array, port)
    return arrays


def _outputs(request: Any) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for index, output in enumerate(request.outputs):
        where = f"outputs[{index}] {output.name[:200]!r}"
        if _SHARED in output.parameters:
            raise _no_shared_memory(where)
        if output.name in names:
            msg = f"{where}.name: a second output of this name"
            raise SignatureError(msg)
        names[output.name] = None
    return tuple(names)


def _no_shared_memory(where: str) -> NotOfferedError:
    msg = f"{where}.parameters: this server takes no shared memory"
    return NotOfferedError(msg, remedy="send the contents in the request")


def _values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value_of(parameter) for name, parameter in parameters.items()}
    if nothing := sorted(name for name, value in found.items() if value is None):
        msg = f"parameters.{nothing[0][:200]}: no value"
        raise MalformedError(msg)
    return found


def _deadline(parameters: Mapping[str, Any]) -> float:
    """Return the deadline that the parameter ``timeout`` sets, in microseconds; 0 is none."""
    microseconds = _whole(parameters, "timeout", _INT64 - 1)
    return time.monotonic() + microseconds / _MICROSECONDS if microseconds else math.inf


def _whole(parameters: Mapping[str, Any], name: str, most: int) -> int:
    value = parameters.get(name, 0)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _LONGEST_NUMBER:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        msg = f"parameters.{name}: found {str(value)[:40]!r}, expected a whole number from 0 to {most}"
        raise MalformedError(msg)
    return value


def _classes(output: Any) -> int:
    value = value_of(output.parameters[_CLASSIFICATION])
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"outputs {output.name[:200]!r}.parameters.classification: expected a whole number"
        raise MalformedError(msg)
    return value
