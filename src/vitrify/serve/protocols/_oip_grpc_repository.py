"""The model repository extension over gRPC: the index, loading and unloading.

A model is loaded by a reference, never by files in the request: what is served was verified, and a policy permits it.
The parameter ``config`` is the JSON of :class:`vitrify.serve.settings.ModelSettings`, or of an ensemble's settings;
without it, a model is loaded as it was before, or by its name as the reference.

Source: Triton's ``extension_model_repository.md``; the messages of KServe's client have the model's name in the first
field, where Triton's have the repository's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import DeniedError, MalformedError, NotOfferedError, UsageError
from vitrify.serve.protocols._messages import messages
from vitrify.serve.protocols._oip_grpc_request import value_of
from vitrify.serve.protocols.oip_rest_repository import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.models import Engine
    from vitrify.serve.protocols._messages import Unary
    from vitrify.serve.rpc import RpcCall

CONFIG = "config"
MAX_CONFIG = 64 * 1024


def handlers(engine: Engine, is_admin: Callable[[str], bool]) -> dict[str, Unary]:
    """Return the handlers of the extension."""
    said = messages("inference")

    async def repository_index(request: Any, _call: RpcCall) -> Any:
        found = said.RepositoryIndexResponse()
        for one in engine.index():
            if one.state == "READY" or not request.ready:
                found.models.add(name=one.name, version=one.version, state=one.state, reason=one.reason)
        return found

    def require_admin(call: RpcCall) -> None:
        if not is_admin(call.client):
            raise not_admin()

    async def repository_model_load(request: Any, call: RpcCall) -> Any:
        require_admin(call)
        name = _name(request)
        for settings in settings_of(engine, name, _config(request)):
            await engine.load(settings)
        return said.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def repository_model_unload(request: Any, call: RpcCall) -> Any:
        require_admin(call)
        name = _name(request)
        await engine.unload(name)
        return said.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)

    return {
        "RepositoryIndex": repository_index,
        "RepositoryModelLoad": repository_model_load,
        "RepositoryModelUnload": repository_model_unload,
    }


def not_admin() -> DeniedError:
    """Return the error of a client that may not change what is served."""
    msg = "loading and unloading models needs a client that is admin"
    return DeniedError(msg, remedy="use the token of one, or set admin = true for this client")


def _name(request: Any) -> str:
    name: str = request.model_name or request.repository_name
    if not name:
        raise UsageError("model_name: found nothing, expected the name of a model")
    return name


def _config(request: Any) -> str | None:
    """Return the parameter ``config``."""
    for name in sorted(request.parameters):
        if name.startswith("file:"):
            msg = f"parameters.{name[:200]}: this server takes no model files over the wire"
            raise NotOfferedError(msg, remedy="push the artifact to a registry, and load its reference")
        if name not in {CONFIG, "unload_dependents"}:
            msg = f"parameters.{name[:200]}: this server knows config only"
            raise UsageError(msg)
    if CONFIG not in request.parameters:
        return None
    config = value_of(request.parameters[CONFIG])
    if not isinstance(config, str) or len(config) > MAX_CONFIG:
        msg = f"parameters.config: expected JSON text of at most {MAX_CONFIG} characters"
        raise MalformedError(msg)
    return config
