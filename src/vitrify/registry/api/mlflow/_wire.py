"""How MLflow's clients write a request, and what they expect back.

A request's fields stand in a JSON body, or, of a GET, in the query. Fields that are not known here are passed over, as
MLflow does. An error is ``{"error_code", "message"}`` with the status that MLflow's own server gives.

Source: MLflow's ``model_registry.proto``, ``service.proto`` and ``mlflow_artifacts.proto``; observed from its client
3.17.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, get_origin

import msgspec

from vitrify.core import errors as e
from vitrify.core.nesting import shallow
from vitrify.registry import limits
from vitrify.registry.api.routing import Answer, Call, Route

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.registry.api.routing import Method
    from vitrify.registry.values import Role

API = "/api/2.0/mlflow"
_JSON = {"content-type": "application/json"}
MAX_TEXT = 1024 * 1024
"""Characters of a text: MLflow's clients send the schema of a data set with thousands of columns as one."""
_MAX_DEPTH = 20
_CODES: tuple[tuple[type[e.VitrifyError], tuple[str, int | None]], ...] = (
    (e.ReferenceNotFoundError, ("RESOURCE_DOES_NOT_EXIST", 404)),
    (e.AuthenticationError, ("UNAUTHENTICATED", 401)),
    (e.DeniedError, ("PERMISSION_DENIED", 403)),
    (e.CorruptError, ("DATA_LOSS", 500)),
    (e.UnavailableError, ("TEMPORARILY_UNAVAILABLE", 503)),
    (e.UsageError, ("INVALID_PARAMETER_VALUE", 400)),
    (e.MalformedError, ("INVALID_PARAMETER_VALUE", 400)),
    (e.UnsupportedModelError, ("INVALID_PARAMETER_VALUE", 400)),
)
"""MLflow's name of an error, and its own status; the first that fits counts."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The root of all requests."""


class Pair(Message, frozen=True, kw_only=True):
    """A tag or a parameter."""

    key: str
    value: str = ""


M = TypeVar("M", bound=Message)
Function = Callable[[Call, M], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """One endpoint.

    Attributes:
        path: Behind ``/api/2.0/mlflow``, or from the root where it begins with ``/api``.
        message: What its fields are.
        taken: Whether a conflict means that a name is taken, which MLflow says in another way.
    """

    method: Method
    path: str
    role: Role
    function: Callable[[Call, Any], dict[str, Any]]
    message: type[Message] = Message
    taken: bool = False

    @property
    def route(self) -> Route:
        """The row as the server's router takes it."""
        path = self.path if self.path.startswith("/api") else f"{API}{self.path}"
        name = f"mlflow{path.removeprefix(API).removeprefix('/api').replace('/', '.')}"
        endpoint = partial(_answer, self)
        return Route(self.method, path, self.role, endpoint, name=name, failed=partial(failed, taken=self.taken))


def failed(error: e.VitrifyError, status: int, *, taken: bool = False) -> Answer:
    """Say an error as MLflow does."""
    code, own = _code(error, taken=taken)
    said = {"error_code": code, "message": str(error)}
    return Answer(own or status, msgspec.json.encode(said), dict(_JSON))


def pairs(tags: Iterable[Pair]) -> dict[str, str]:
    """Return tags as a dict; the last of a key counts."""
    return {pair.key: pair.value for pair in tags}


def said(mapping: dict[str, str]) -> list[dict[str, str]]:
    """Return a dict as MLflow's list of pairs."""
    return [{"key": key, "value": value} for key, value in mapping.items()]


def number(value: float | None) -> float | str:
    """Return a number as protobuf's JSON has it; None is NaN."""
    if value is None or math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def _answer(row: Row, call: Call) -> Answer:
    answer = row.function(call, _parse(call, row.message))
    return Answer(200, msgspec.json.encode(answer), dict(_JSON))


def _parse(call: Call, kind: type[M]) -> M:
    """Return a request.

    Raises:
        UsageError: It is no JSON, or has a field of the wrong type, too long, or with control characters.
    """
    raw: Any = {}
    if call.body.strip():
        try:
            raw = msgspec.json.decode(shallow(call.body, _MAX_DEPTH))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            msg = f"the body is no JSON that can be read: {error}"
            raise e.UsageError(msg) from error
        if not isinstance(raw, dict):
            msg = f"the body is no JSON object but a {type(raw).__name__}"
            raise e.UsageError(msg)
    lists = _lists(kind)
    query = {name: given if name in lists else given[-1] for name, given in call.query.items() if given}
    fields = {**query, **raw, **call.path}
    limits.check_plain(fields, "the request", MAX_TEXT)
    known = {name: value for name, value in fields.items() if value is not None}
    try:
        return msgspec.convert(known, kind, strict=False)
    except msgspec.ValidationError as error:
        msg = f"the request is not as MLflow's API has it: {error}"
        raise e.UsageError(msg) from error


@cache
def _lists(kind: type[Message]) -> frozenset[str]:
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(kind) if get_origin(field.type) in {tuple, list}
    )


def _code(error: e.VitrifyError, *, taken: bool) -> tuple[str, int | None]:
    """Return MLflow's name of an error, and its status where ours is another."""
    if isinstance(error, e.ConflictError):
        return ("RESOURCE_ALREADY_EXISTS", 400) if taken else ("RESOURCE_CONFLICT", 409)
    return next((code for kind, code in _CODES if isinstance(error, kind)), ("INTERNAL_ERROR", None))
