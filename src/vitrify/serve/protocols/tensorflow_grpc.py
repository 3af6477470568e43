"""TensorFlow Serving over gRPC: ``PredictionService`` and ``ModelService``; ``SessionService`` says it is not here.

A model here has one signature, ``serving_default``. Versions are numbers: the version's own where it is one; labels are
what the registry calls aliases. ``HandleReloadConfigRequest`` loads models by reference: ``base_path`` is what
``vitrify serve`` takes, not a folder to watch.

Source: https://github.com/tensorflow/serving, ``apis/prediction_service.proto`` and ``apis/model_service.proto``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import SignatureError
from vitrify.serve.ports import to_session
from vitrify.serve.protocols._messages import aside, bind, messages
from vitrify.serve.protocols._oip_grpc_request import size_of
from vitrify.serve.protocols._tensorflow_grpc_examples import inputs_of
from vitrify.serve.protocols._tensorflow_grpc_models import handlers
from vitrify.serve.protocols._tensorflow_grpc_spec import Specs
from vitrify.serve.protocols._tensorflow_grpc_tensors import array_of, write
from vitrify.serve.protocols._tensorflow_results import classes, classified_output, regressed_output, regressions

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Engine
    from vitrify.serve.protocols._tensorflow_grpc_spec import Asked, Labels
    from vitrify.serve.rpc import Method, RpcCall
    from vitrify.serve.values import Reply

SERVICE = "tensorflow.serving.PredictionService"
MODEL_SERVICE = "tensorflow.serving.ModelService"
SESSION_SERVICE = "tensorflow.serving.SessionService"

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"
MAX_TASKS = 100
"""Of one ``MultiInference``."""


def methods(engine: Engine, *, is_admin: Callable[[str], bool], labels: Labels) -> tuple[Method, ...]:
    """Return the methods of the services.

    Args:
        engine: Answers.
        is_admin: Whether a client, by its name, may load and unload.
        labels: From a model to its labels, and the version that each stands for.
    """
    specs = Specs(engine, labels)
    prediction = _Prediction(engine, specs)
    told = handlers(engine, specs, is_admin)
    answers = {
        "Predict": prediction.predict,
        "Classify": prediction.classify,
        "Regress": prediction.regress,
        "MultiInference": prediction.multi_inference,
        "GetModelMetadata": told.pop("GetModelMetadata"),
    }
    absent = "a model is no TensorFlow graph whose tensors could be asked for; use PredictionService"
    return (*bind(SERVICE, answers), *bind(MODEL_SERVICE, told), *bind(SESSION_SERVICE, {}, absent=absent))


class _Prediction:
    """What asks models."""

    def __init__(self, engine: Engine, specs: Specs) -> None:
        self._engine = engine
        self._specs = specs
        self._said = messages("tensorflow_serving")
        self._types = messages("tensorflow").DataType

    async def predict(self, request: Any, call: RpcCall) -> Any:
        """Answer tensors with tensors."""
        asked = self._specs.find(request.model_spec)
        filtered = tuple(request.output_filter)
        if len(set(filtered)) != len(filtered):
            raise SignatureError("output_filter: an output is named twice")
        inputs = await aside(len(call.message), self._tensors, request, asked)
        reply = await self._engine.infer(asked.infer(inputs, call, outputs=filtered))
        return await aside(size_of(reply), self._predicted, reply, asked)

    async def classify(self, request: Any, call: RpcCall) -> Any:
        """Answer examples with the label and the score of each class."""
        response = self._said.ClassificationResponse()
        await self._classified(request.model_spec, request.input, call, response.result, response.model_spec)
        return response

    async def regress(self, request: Any, call: RpcCall) -> Any:
        """Answer examples with one number each."""
        response = self._said.RegressionResponse()
        await self._regressed(request.model_spec, request.input, call, response.result, response.model_spec)
        return response

    async def multi_inference(self, request: Any, call: RpcCall) -> Any:
        """Answer the same examples in several ways, one after the other."""
        if not 0 < len(request.tasks) <= MAX_TASKS:
            msg = f"tasks: found {len(request.tasks)}, expected 1 to {MAX_TASKS}"
            raise SignatureError(msg)
        response = self._said.MultiInferenceResponse()
        for index, task in enumerate(request.tasks):
            result = response.results.add()
            if task.method_name == CLASSIFY:
                answer, where = self._classified, result.classification_result
            elif task.method_name == REGRESS:
                answer, where = self._regressed, result.regression_result
            else:
                msg = f"tasks[{index}].method_name: found {task.method_name[:100]!r}, expected {CLASSIFY} or {REGRESS}"
                raise SignatureError(msg)
            await answer(task.model_spec, request.input, call, where, result.model_spec)
        return response

    async def _classified(self, spec: Any, given: Any, call: RpcCall, result: Any, answered: Any) -> None:
        asked = self._specs.find(spec)
        field = classified_output(asked.served.signature)
        inputs = await aside(len(call.message), inputs_of, given, asked.served)
        reply = await self._engine.infer(asked.infer(inputs, call, outputs=(field.name,)))
        for row in classes(reply.outputs, field):
            found = result.classifications.add().classes
            for label, score in row:
                found.add(label=label, score=score)
        self._specs.write(answered, reply)

    async def _regressed(self, spec: Any, given: Any, call: RpcCall, result: Any, answered: Any) -> None:
        asked = self._specs.find(spec)
        field = regressed_output(asked.served.signature)
        inputs = await aside(len(call.message), inputs_of, given, asked.served)
        reply = await self._engine.infer(asked.infer(inputs, call, outputs=(field.name,)))
        for value in regressions(reply.outputs, field):
            result.regressions.add(value=value)
        self._specs.write(answered, reply)

    def _predicted(self, reply: Reply, asked: Asked) -> Any:
        ports = {port.name: port for port in asked.served.outputs}
        response = self._said.PredictResponse()
        for name, array in reply.outputs.items():
            write(response.outputs[name], array, ports.get(name), self._types)
        self._specs.write(response.model_spec, reply)
        return response

    def _tensors(self, request: Any, asked: Asked) -> Arrays:
        ports = {port.name: port for port in asked.served.inputs}
        found: Arrays = {}
        for name, tensor in request.inputs.items():
            array = array_of(tensor, self._types, f"inputs[{name[:200]!r}]")
            found[name] = to_session(array, ports[name]) if name in ports else array
        return found
