"""gRPC's reflection: which services there are and what their messages look like, for grpcurl, Postman and the like.

Both versions of the service are offered, ``v1`` and the older ``v1alpha``; their messages are the same.

Source: https://github.com/grpc/grpc/blob/master/doc/server-reflection.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.serve.faults import NOT_FOUND, UNIMPLEMENTED
from vitrify.serve.protocols._messages import bind, messages, pool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Collection

    from vitrify.serve.protocols._messages import Streaming
    from vitrify.serve.rpc import Method, RpcCall

SERVICES = {
    "reflection": "grpc.reflection.v1.ServerReflection",
    "reflection_v1alpha": "grpc.reflection.v1alpha.ServerReflection",
}


def methods(*, services: Collection[str]) -> tuple[Method, ...]:
    """Return the methods of both versions.

    Args:
        services: Full names of the services that are offered beside these.
    """
    offered = sorted({*services, *SERVICES.values()})
    return tuple(
        method
        for file, service in SERVICES.items()
        for method in bind(service, {"ServerReflectionInfo": _handler(file, offered)})
    )


def _handler(file: str, offered: list[str]) -> Streaming:
    said = messages(file)

    async def server_reflection_info(requests: AsyncIterator[Any], _call: RpcCall) -> AsyncGenerator[Any, None]:
        async for request in requests:
            response = said.ServerReflectionResponse(valid_host=request.host, original_request=request)
            _answer(response, request, offered)
            yield response

    return server_reflection_info


def _answer(response: Any, request: Any, offered: list[str]) -> None:
    asked = request.WhichOneof("message_request")
    if asked == "list_services":
        for name in offered:
            response.list_services_response.service.add(name=name)
        return
    find = {"file_by_filename": pool().FindFileByName, "file_containing_symbol": pool().FindFileContainingSymbol}
    if asked not in find:
        response.error_response.error_code = UNIMPLEMENTED
        response.error_response.error_message = f"{asked or 'nothing'}: proto3 has no extensions to tell about"
        return
    name = getattr(request, asked)
    try:
        found = find[asked](name)
    except KeyError:
        response.error_response.error_code = NOT_FOUND
        response.error_response.error_message = f"{asked}: there is no {name[:200]!r} here"
        return
    response.file_descriptor_response.file_descriptor_proto.extend(_with_dependencies(found))


def _with_dependencies(file: Any) -> list[bytes]:
    """Return the descriptors of a file and of all that it needs, itself first."""
    found = {file.name: file}
    waiting = [file]
    while waiting:
        for one in waiting.pop().dependencies:
            if one.name not in found:
                found[one.name] = one
                waiting.append(one)
    return [one.serialized_pb for one in found.values()]
