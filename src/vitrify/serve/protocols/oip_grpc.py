"""The Open Inference Protocol over gRPC: ``inference.GRPCInferenceService``, with Triton's and KServe's extensions.

``ModelInfer`` here says what is right: the native plane answers the same bytes.

Source: https://github.com/kserve/open-inference-protocol; Triton's ``protocol/README.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.serve.protocols import _oip_grpc_models, _oip_grpc_repository
from vitrify.serve.protocols._messages import aside, bind, messages
from vitrify.serve.protocols._oip_grpc_request import infer_of, response_of, size_of
from vitrify.serve.protocols._oip_grpc_stream import stream_infer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from vitrify.serve.models import Engine
    from vitrify.serve.protocols._messages import Streaming, Unary
    from vitrify.serve.rpc import Method, RpcCall

SERVICE = "inference.GRPCInferenceService"


def methods(
    engine: Engine, *, is_admin: Callable[[str], bool], charge: Callable[[str], None] = lambda _client: None
) -> tuple[Method, ...]:
    """Return the methods of the service.

    Args:
        engine: Answers.
        is_admin: Whether a client, by its name, may load and unload.
        charge: Counts one more request of a client, by its name, or refuses it.
    """
    said = messages("inference")

    async def server_live(_request: Any, _call: RpcCall) -> Any:
        return said.ServerLiveResponse(live=True)

    async def server_ready(_request: Any, _call: RpcCall) -> Any:
        return said.ServerReadyResponse(ready=engine.ready)

    async def model_infer(request: Any, call: RpcCall) -> Any:
        asked = await aside(len(call.message), infer_of, request, call, engine)
        reply = await engine.infer(asked)
        return await aside(size_of(reply), response_of, reply, request, engine)

    def model_stream_infer(requests: AsyncIterator[Any], call: RpcCall) -> AsyncGenerator[Any, None]:
        return stream_infer(requests, call, engine, charge)

    answers: dict[str, Unary | Streaming] = {
        "ServerLive": server_live,
        "ServerReady": server_ready,
        "ModelInfer": model_infer,
        "ModelStreamInfer": model_stream_infer,
        **_oip_grpc_models.handlers(engine),
        **_oip_grpc_repository.handlers(engine, is_admin),
    }
    absent = "it shares no memory with its clients, and its log and traces are set where it is started"
    return bind(SERVICE, answers, absent=absent, without_token={"ServerLive", "ServerReady"})
