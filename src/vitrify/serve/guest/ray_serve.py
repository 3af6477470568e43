"""What an application of Ray Serve imports: a deployment that answers the Open Inference Protocol over REST.

Source: https://docs.ray.io/en/latest/serve/http-guide.html: a replica is called with Starlette's request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnavailableError
from vitrify.serve.guest.host import Host, settings_of
from vitrify.serve.web import Call

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_MOST_BODY = 64 * 1024 * 1024
_TOO_LARGE = 413


class Model:
    """One replica.

    Args:
        place: The layout with the artifact.
        name: What the model is called.
        version: What its version is called.
        allow: Exact dotted names of code outside the built-in allow-list that may run.
    """

    def __init__(self, place: Path, name: str, version: str, allow: Collection[str] = ()) -> None:
        """Load and prove the artifact.

        Raises:
            VitrifyError: It cannot be served.
        """
        self._host = Host(settings_of(place, name, version, allow))

    async def __call__(self, request: Any) -> Any:
        """Answer a request of Starlette's with a response of Starlette's."""
        from starlette.responses import JSONResponse, Response, StreamingResponse

        pieces, size = [], 0
        async for piece in request.stream():
            size += len(piece)
            if size > _MOST_BODY:
                said = f"the body has more than {_MOST_BODY} bytes"
                return JSONResponse({"error": said}, _TOO_LARGE)
            pieces.append(piece)
        headers = {name.lower(): value for name, value in request.headers.items()}
        call = Call(request.method, request.url.path, dict(request.query_params), headers, b"".join(pieces))
        call.id = headers.get("x-request-id", "")
        answer = await asyncio.wrap_future(self._host.answer(call))
        if isinstance(answer.body, bytes):
            return Response(answer.body, answer.status, answer.headers)
        return StreamingResponse(self._host.pieces(answer.body), answer.status, answer.headers)

    def check_health(self) -> None:
        """Say that all is well; Ray asks from time to time, and replaces a replica that raises.

        Raises:
            UnavailableError: The model is not ready.
        """
        if not self._host.ready():
            raise UnavailableError("the model is not ready")

    def close(self) -> None:
        """Answer what was taken, and let go of the model."""
        self._host.close()
