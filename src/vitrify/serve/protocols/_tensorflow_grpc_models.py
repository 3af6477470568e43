"""What TensorFlow Serving tells of models, and how it is told to load others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import DeniedError, MalformedError, NotOfferedError, VitrifyError
from vitrify.serve.faults import INTERNAL, codes, said
from vitrify.serve.protocols._asking import versions
from vitrify.serve.protocols._messages import messages
from vitrify.serve.protocols._tensorflow_grpc_tensors import type_of
from vitrify.serve.protocols.tensorflow_rest import SIGNATURE
from vitrify.serve.settings import ModelSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.models import Engine, Served
    from vitrify.serve.protocols._messages import Unary
    from vitrify.serve.protocols._tensorflow_grpc_spec import Specs
    from vitrify.serve.rpc import RpcCall

SIGNATURE_DEF = "signature_def"
MAX_MODELS = 100
"""Of one ``HandleReloadConfigRequest``."""

_STATES = {"LOADING": "LOADING", "READY": "AVAILABLE", "UNLOADING": "UNLOADING", "UNAVAILABLE": "END"}
_METHOD = "tensorflow/serving/predict"
_TYPE_URL = "type.googleapis.com/"
_UNAVAILABLE = 14


def handlers(engine: Engine, specs: Specs, is_admin: Callable[[str], bool]) -> dict[str, Unary]:
    """Return the handlers of ``GetModelMetadata``, and of ``ModelService``."""
    said_ = messages("tensorflow_serving")

    async def get_model_metadata(request: Any, _call: RpcCall) -> Any:
        unknown = sorted(set(request.metadata_field) - {SIGNATURE_DEF})
        if unknown or not request.metadata_field:
            found = repr(unknown[0][:100]) if unknown else "nothing"
            msg = f"metadata_field: found {found}, expected {SIGNATURE_DEF}"
            raise MalformedError(msg)
        served = specs.find_version(request.model_spec).served
        response = said_.GetModelMetadataResponse()
        response.model_spec.name, response.model_spec.version.value = served.name, served.number
        packed = _signature_map(served)
        holder = response.metadata[SIGNATURE_DEF]
        holder.type_url, holder.value = _TYPE_URL + packed.DESCRIPTOR.full_name, packed.SerializeToString()
        return response

    async def get_model_status(request: Any, _call: RpcCall) -> Any:
        spec = request.model_spec
        named = spec.WhichOneof("version_choice") is not None
        chosen = (specs.find_version(spec).served,) if named else versions(engine, spec.name)
        response = said_.GetModelStatusResponse()
        for one in chosen:
            status = response.model_version_status.add(version=one.number)
            status.state = said_.ModelVersionStatus.State.Value(_STATES[one.state])
            status.status.error_code = _UNAVAILABLE if one.state == "UNAVAILABLE" else 0
            status.status.error_message = one.reason
        return response

    async def handle_reload_config_request(request: Any, call: RpcCall) -> Any:
        if not is_admin(call.client):
            msg = "loading and unloading models needs a client that is admin"
            raise DeniedError(msg, remedy="use the token of one, or set admin = true for this client")
        wanted = _wanted(request)
        response = said_.ReloadConfigResponse()
        try:
            for settings in wanted:
                await engine.load(settings)
        except VitrifyError as error:
            if codes(error)[1] == INTERNAL:
                raise
            response.status.error_code, response.status.error_message = codes(error)[1], said(error)
        response.status.SetInParent()
        return response

    return {
        "GetModelMetadata": get_model_metadata,
        "GetModelStatus": get_model_status,
        "HandleReloadConfigRequest": handle_reload_config_request,
    }


def _wanted(request: Any) -> list[ModelSettings]:
    """Return what a configuration asks for; models that it does not name are left as they are."""
    kind = request.config.WhichOneof("config")
    if kind != "model_config_list":
        msg = f"config: found {kind or 'nothing'}, expected model_config_list"
        raise NotOfferedError(msg) if kind else MalformedError(msg)
    listed = request.config.model_config_list.config
    if len(listed) > MAX_MODELS:
        msg = f"config.model_config_list: {len(listed)} models, more than {MAX_MODELS}"
        raise MalformedError(msg)
    for index, one in enumerate(listed):
        if not one.name or not one.base_path:
            msg = f"config.model_config_list[{index}]: expected name and base_path, the model's reference"
            raise MalformedError(msg)
    return [ModelSettings(reference=one.base_path, name=one.name) for one in listed]


def _signature_map(served: Served) -> Any:
    types = messages("tensorflow").DataType
    found = messages("tensorflow_serving").SignatureDefMap()
    signature = found.signature_def[SIGNATURE]
    signature.method_name = _METHOD
    for ports, tensors in ((served.inputs, signature.inputs), (served.outputs, signature.outputs)):
        for port in ports:
            info = tensors[port.name]
            info.name, info.dtype = f"{port.name}:0", types.Value(type_of(port))
            info.tensor_shape.SetInParent()
            for size in port.shape:
                info.tensor_shape.dim.add(size=size)
    return found
