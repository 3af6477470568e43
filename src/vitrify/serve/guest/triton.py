"""What Triton's Python backend imports to run a model: ``model.py`` of a repository that Vitrify wrote names it.

Code that the artifact needs must be allowed by name: ``vitrify.allow`` in ``config.pbtxt`` is a JSON list of names.
Triton hands over requests; the engine puts them together where that is proven to change no answer.

Source: https://github.com/triton-inference-server/python_backend.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UsageError, VitrifyError
from vitrify.serve.guest.host import Host, settings_of
from vitrify.serve.lanes import Batching
from vitrify.serve.ports import to_session, to_wire
from vitrify.serve.values import Infer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitrify.serve.values import Reply

BUNDLE = "artifact"
_ALLOW = "vitrify.allow"


class TritonPythonModel:
    """One version of a model, as Triton calls it."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Load and prove the artifact beside ``model.py``.

        Raises:
            VitrifyError: It cannot be served; Triton then says why and does not serve it.
        """
        told = json.loads(args["model_config"])
        place = Path(args["model_repository"], args["model_version"], BUNDLE).absolute()
        rows = int(told.get("max_batch_size", 0))
        settings = settings_of(place, args["model_name"], args["model_version"], allowed(told.get("parameters", {})))
        batching = Batching(rows=max(1, rows), delay_us=0)  # Triton has waited already
        self._host = Host(settings.replace(batching=batching))
        served = self._host.served
        self._inputs = {port.name: port for port in served.inputs}
        self._outputs = {port.name: port for port in served.outputs}

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer what Triton has put together, each request with its own answer or error."""
        import triton_python_backend_utils as backend  # type: ignore[import-not-found]  # only inside of Triton

        asked = [self._asked(request) for request in requests]
        answers = []
        for one in asked:
            try:
                if isinstance(one, VitrifyError):
                    raise one
                answers.append(backend.InferenceResponse(self._tensors(backend, one.result())))
            except VitrifyError as error:
                answers.append(backend.InferenceResponse([], backend.TritonError(str(error))))
        return answers

    def finalize(self) -> None:
        """Let go of the model."""
        self._host.close()

    def _asked(self, request: Any) -> Any:
        """Return the future of an answer, or the error of a request that cannot be asked."""
        try:
            tensors = {one.name(): one.as_numpy() for one in request.inputs()}
            inputs = {name: self._session_s(name, array) for name, array in tensors.items()}
        except VitrifyError as error:
            return error
        served = self._host.served
        wanted = tuple(sorted(request.requested_output_names()))
        return self._host.infer(
            Infer(served.name, inputs, version=served.version, outputs=wanted, id=request.request_id())
        )

    def _session_s(self, name: str, array: Any) -> Any:
        """Return an input as sessions take it; one that the model does not have is the engine's to refuse."""
        return to_session(array, self._inputs[name]) if name in self._inputs else array

    def _tensors(self, backend: Any, reply: Reply) -> list[Any]:
        return [backend.Tensor(name, to_wire(array, self._outputs[name])) for name, array in reply.outputs.items()]


def allowed(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of code that a configuration allows.

    Raises:
        UsageError: It is no JSON list of names.
    """
    text = parameters.get(_ALLOW, {}).get("string_value", "[]")
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        msg = f"{_ALLOW} is {text[:200]!r}; expected a JSON list of names"
        raise UsageError(msg, remedy='for example: ["acme.steps.Scale"]')
    return tuple(names)
