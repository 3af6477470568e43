"""MLflow's scoring protocol: ``/ping``, ``/health``, ``/version`` and ``/invocations``.

*Which model.* The only one that is served; where there are several, the query says it: ``/invocations?model=churn``
(and ``&version=2``).

*What is answered.* ``{"predictions": ...}``, as MLflow's own ``pyfunc`` would give it. One output is an array. A
classifier gives what its ``predict`` gives: the labels. Several columns are an object a row; several tensors are an
object of arrays. ``"params": {"outputs": ["probability"]}`` asks for outputs by name; other params go to the model.

*What is no number.* A missing value and NaN are null, which data frames read as missing; infinities are the numbers
``1e999`` and ``-1e999``, which are valid JSON and are read as infinite. Both tokens of Python's are taken as input.

Source: https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/, and the client of mlflow 3.17.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, NotOfferedError, SignatureError, UsageError
from vitrify.serve.protocols import _data, _json, tables
from vitrify.serve.protocols._asking import aside, ask, askable, made_by, own_version, size_of
from vitrify.serve.protocols._described import ANYTHING, OBJECT, TEXT, DescribedRoute, an_array, an_object
from vitrify.serve.protocols._rows import Words
from vitrify.serve.protocols._tensorflow_request import inputs_of
from vitrify.serve.web import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.web import Call, Route

CSV, PARQUET, PLAIN = "text/csv", "application/vnd.apache.parquet", "text/plain"
FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")
BARE = ("messages", "prompt", "input")
"""What requests of language models begin with; such a body is itself the one row."""

_CODES = {
    400: "BAD_REQUEST",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    409: "RESOURCE_CONFLICT",
    413: "BAD_REQUEST",
    415: "BAD_REQUEST",
    422: "BAD_REQUEST",
    429: "REQUEST_LIMIT_EXCEEDED",
    501: "NOT_IMPLEMENTED",
    503: "TEMPORARILY_UNAVAILABLE",
    504: "TEMPORARILY_UNAVAILABLE",
}
_ERROR = an_object({"error_code": TEXT, "message": TEXT}, "error_code", "message")
REQUEST: dict[str, Any] = {
    **OBJECT,
    "properties": {
        "dataframe_split": an_object({"columns": an_array(ANYTHING), "data": an_array(an_array(ANYTHING))}, "data"),
        "dataframe_records": an_array(OBJECT),
        "instances": an_array(ANYTHING),
        "inputs": ANYTHING,
        "params": OBJECT,
    },
    "anyOf": [{"required": [name]} for name in (*FORMS, *BARE)],
}
RESPONSE = an_object({"predictions": ANYTHING}, "predictions")
_UNREADABLE, _WAIT = 415, 503


def routes(engine: Engine) -> tuple[Route, ...]:
    """Return the protocol's routes."""
    protocol = _Protocol(engine)
    told = (("/ping", protocol.ping), ("/health", protocol.ping), ("/version", protocol.version))
    return (
        *(
            DescribedRoute(
                *("GET", pattern, endpoint, pattern[1:], error_answer, pattern != "/version"),
                summary="Whether the model is ready." if pattern != "/version" else "The version of this server.",
                gives={PLAIN: TEXT},
                error=_ERROR,
            )
            for pattern, endpoint in told
        ),
        DescribedRoute(
            *("POST", "/invocations", protocol.invocations, "invocations", error_answer),
            summary="Run the model once.",
            takes={_json.JSON: REQUEST, CSV: TEXT, PARQUET: TEXT},
            gives={_json.JSON: RESPONSE},
            error=_ERROR,
            query={"model": "Which model, where several are served.", "version": "Which version of it."},
        ),
    )


def error_answer(error: Exception, status: int) -> Answer:
    """Say an error as MLflow does."""
    return _json.answer({"error_code": _CODES.get(status, "INTERNAL_ERROR"), "message": str(error)}, status)


@dataclass(frozen=True)
class _Protocol:
    engine: Engine

    async def ping(self, call: Call) -> Answer:
        """Tell whether requests should come."""
        del call
        return Answer(200 if self.engine.ready else _WAIT, b"\n", {"content-type": PLAIN})

    async def version(self, call: Call) -> Answer:
        """Tell the version."""
        del call
        return Answer(200, own_version().encode(), {"content-type": PLAIN})

    async def invocations(self, call: Call) -> Answer:
        """Answer one request."""
        served, version = self._served(call)
        media = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if (reader := _READERS.get(media)) is None:
            expected = ", ".join(_READERS)
            wrong = UsageError(f"the content-type is {media[:80]!r}, expected one of {expected}")
            return error_answer(wrong, _UNREADABLE)
        try:
            inputs, params = await aside(len(call.body), reader, call.body, served)
        except NotOfferedError as error:
            return error_answer(error, _UNREADABLE)
        outputs = _wanted(params.pop("outputs", None), served.signature)
        reply = await self.engine.infer(
            ask(call, served.name, inputs, version=version, outputs=outputs, parameters=params)
        )
        written = await aside(size_of(reply), predictions, reply.outputs, served.signature)
        headers = {"content-type": _json.JSON, **made_by(reply)}
        return Answer(200, b'{"predictions": ' + written + b"}", headers)

    def _served(self, call: Call) -> tuple[Served, str]:
        version = call.query.get("version", "")
        model = call.query.get("model", "")
        if not model:
            names = sorted({one.name for one in self.engine.index() if one.inputs})
            if len(names) != 1:
                msg = f"{len(names)} models are served" + (f": {', '.join(names[:20])}" if names else "")
                raise UsageError(msg, remedy="say which one is meant: /invocations?model=NAME")
            (model,) = names
        return askable(self.engine, model, version), version


def from_json(body: bytes, served: Served) -> tuple[Arrays, dict[str, Any]]:
    """Return the inputs and the params of a request in JSON.

    Raises:
        MalformedError: It is of none of MLflow's forms, or of several.
        SignatureError: It does not fit the signature.
    """
    members = _json.request(body)
    forms = [name for name in FORMS if name in members]
    if not forms and any(name in members for name in BARE):
        return _bare(_json.loose(body), served)
    if len(forms) != 1:
        msg = f"the body has {' and '.join(forms) or 'none of them'}; expected exactly one of {', '.join(FORMS)}"
        raise MalformedError(msg)
    params = _json.plain(members["params"], "params", dict[str, Any] | None) if "params" in members else None
    (form,) = forms
    if form in {"instances", "inputs"}:
        _, inputs = inputs_of(members, served)
    else:
        whole = _json.loose(body)[form]
        inputs = tables.from_split(whole, served) if form == "dataframe_split" else tables.from_records(whole, served)
    return inputs, params or {}


_READERS: dict[str, Callable[[bytes, Served], tuple[Arrays, dict[str, Any]]]] = {
    _json.JSON: from_json,
    CSV: lambda body, served: (tables.from_csv(body, served), {}),
    PARQUET: lambda body, served: (tables.from_parquet(body, served), {}),
}


def _bare(body: Mapping[str, Any], served: Served) -> tuple[Arrays, dict[str, Any]]:
    """A body that is itself the one row; what no input is called is a parameter."""
    names = {port.name for port in served.inputs}
    row = {name: value for name, value in body.items() if name in names}
    if not row:
        msg = f"the body has {', '.join(body)[:100]}, but the inputs are {', '.join(sorted(names)[:20])}"
        raise SignatureError(msg)
    return tables.from_records([row], served, "the body"), {
        name: value for name, value in body.items() if name not in names
    }


def predictions(outputs: Arrays, signature: Signature) -> bytes:
    """Return outputs in the form that ``pyfunc`` would give."""
    by_row = len(outputs) > 1 and all(array.ndim == 1 for array in outputs.values())
    same = len({len(array) for array in outputs.values()}) == 1 if by_row else False
    return _WORDS.rows(outputs) if same and signature.is_table else _WORDS.columns(outputs)


def _wanted(names: Any, signature: Signature) -> tuple[str, ...]:
    """Return which outputs are meant; where nothing is said, the labels of a classifier, else all."""
    if names is not None:
        chosen = [names] if isinstance(names, str) else names
        if not isinstance(chosen, list) or not chosen or not all(isinstance(name, str) for name in chosen):
            msg = "params.outputs: expected the name of an output, or an array of names"
            raise MalformedError(msg)
        return tuple(dict.fromkeys(chosen))
    labels = [field.name for field in signature.outputs if field.classes is not None and len(field.shape) == 1]
    return tuple(labels[:1]) if len(signature.outputs) > 1 else ()


def _sayer(name: str) -> Callable[[Any], Any]:
    del name
    return _say


def _say(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else _data.as_text(value)


_WORDS = Words(_data.NUMBERS, _sayer)
