"""What a handler of TorchServe imports: requests and answers are those of the Open Inference Protocol, as JSON.

TorchServe hands over a list of requests, and takes a list of answers. The engine puts them together where that is
proven to change no answer. Source: https://github.com/pytorch/serve/blob/master/docs/custom_service.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.serve.guest.host import Host, settings_of
from vitrify.serve.web import Call

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

BUNDLE = "artifact"
_FIELDS = ("body", "data")
"""Where TorchServe puts what was sent: the first for a body as it is, the second for a field of a form."""
_JSON = "application/json"


class Handler:
    """One model in one worker.

    Args:
        allow: Exact dotted names of code outside the built-in allow-list that may run.
    """

    def __init__(self, allow: Collection[str] = ()) -> None:
        """Load nothing yet."""
        self._allow = tuple(allow)
        self._host: Host | None = None

    def handle(self, data: Sequence[Mapping[str, Any]] | None, context: Any) -> list[str]:
        """Answer requests; without any, which is how TorchServe begins, load the model.

        Raises:
            VitrifyError: The artifact cannot be served; TorchServe then says why and does not start the worker.
        """
        if self._host is None:
            told = context.manifest["model"]
            place = Path(context.system_properties["model_dir"], BUNDLE).absolute()
            version = str(told["modelVersion"])
            self._host = Host(settings_of(place, told["modelName"], version, self._allow))
        if data is None:
            return []
        path = f"/v2/models/{self._host.served.name}/infer"
        calls = [Call("POST", path, headers={"content-type": _JSON}, body=_body(row)) for row in data]
        answers = [future.result() for future in [self._host.answer(call) for call in calls]]
        for index, answer in enumerate(answers):
            context.set_response_content_type(index, answer.headers.get("content-type", _JSON))
            context.set_response_status(code=answer.status, idx=index)
        return [answer.body.decode() if isinstance(answer.body, bytes) else "" for answer in answers]

    def close(self) -> None:
        """Answer what was taken, and let go of the model."""
        if self._host is not None:
            self._host.close()
            self._host = None


def _body(row: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request; TorchServe has parsed JSON where the caller said that it was some."""
    found = next((row[field] for field in _FIELDS if row.get(field) is not None), b"")
    if isinstance(found, bytes | bytearray | memoryview):
        return bytes(found)
    return found.encode() if isinstance(found, str) else json.dumps(found).encode()
