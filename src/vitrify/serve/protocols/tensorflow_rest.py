"""TensorFlow Serving's REST API: status, metadata, predict, classify, regress.

Versions are numbers: the version's own where it is one. Labels are what the registry calls aliases. A model here has
one signature, ``serving_default``. What is no number goes both ways as the tokens ``NaN``, ``Infinity`` and
``-Infinity``, as TensorFlow Serving documents it.

Besides, as in KServe's first protocol, the rows of a table may be arrays of its columns in order.

Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/g3doc/api_rest.md
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.serve.protocols import _json
from vitrify.serve.protocols._asking import aside, ask, askable, made_by, size_of, versions
from vitrify.serve.protocols._data import TOKENS, as_constant
from vitrify.serve.protocols._described import OBJECT, DescribedRoute, an_array, an_object
from vitrify.serve.protocols._tensorflow_json import WORDS
from vitrify.serve.protocols._tensorflow_request import examples_of, inputs_of
from vitrify.serve.protocols._tensorflow_results import classes, classified_output, regressed_output, regressions
from vitrify.serve.web import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.ports import Port
    from vitrify.serve.values import Reply
    from vitrify.serve.web import Call, Endpoint, Route

    Labels = Callable[[str], Mapping[str, str]]

SIGNATURE = "serving_default"
_STATES = {"LOADING": "LOADING", "READY": "AVAILABLE", "UNLOADING": "UNLOADING", "UNAVAILABLE": "END"}
_TYPES = {
    **{f"{sign}INT{bits}": f"DT_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "BOOL": "DT_BOOL",
    "FP16": "DT_HALF",
    "BF16": "DT_BFLOAT16",
    "FP32": "DT_FLOAT",
    "FP64": "DT_DOUBLE",
    "BYTES": "DT_STRING",
}
_PLACES = (
    "/v1/models/{model}/versions/{version}",
    "/v1/models/{model}/labels/{label}",
    "/v1/models/{model}",
)

_VALUE: dict[str, Any] = {}
_SIGNATURE_NAME = {"signature_name": {"type": "string"}}
PREDICT = {
    **OBJECT,
    "properties": {**_SIGNATURE_NAME, "instances": an_array(_VALUE), "inputs": _VALUE},
    "oneOf": [{"required": ["instances"]}, {"required": ["inputs"]}],
}
EXAMPLES = an_object({**_SIGNATURE_NAME, "context": OBJECT, "examples": an_array(OBJECT)}, "examples")
_PREDICTED = {
    **OBJECT,
    "properties": {"predictions": an_array(_VALUE), "outputs": _VALUE},
    "oneOf": [{"required": ["predictions"]}, {"required": ["outputs"]}],
}
_RESULTS = an_object({"results": an_array(_VALUE)}, "results")
_STATUS = an_object({"model_version_status": an_array(OBJECT)}, "model_version_status")
_METADATA = an_object({"model_spec": OBJECT, "metadata": OBJECT}, "model_spec", "metadata")


def routes(engine: Engine, labels: Labels) -> tuple[Route, ...]:
    """Return the protocol's routes.

    Args:
        engine: Answers.
        labels: From a model to its labels, and the version that each stands for.
    """
    protocol = _Protocol(engine, labels)
    table: tuple[tuple[str, str, Endpoint, str, dict[str, Any] | None, dict[str, Any]], ...] = (
        ("POST", ":predict", protocol.predict, "Run the model once.", PREDICT, _PREDICTED),
        ("POST", ":classify", protocol.classify, "Label and score of every class.", EXAMPLES, _RESULTS),
        ("POST", ":regress", protocol.regress, "One number a row.", EXAMPLES, _RESULTS),
        ("GET", "/metadata", protocol.metadata, "What the model takes and gives.", None, _METADATA),
        ("GET", "", protocol.status, "Which versions there are, and how they are.", None, _STATUS),
    )
    described = (
        DescribedRoute(
            *(method, f"{place}{verb}", endpoint, f"v1/{verb.strip(':/') or 'status'}", _json.error_answer),
            summary=summary,
            takes={_json.JSON: takes} if takes else {},
            gives={_json.JSON: gives},
        )
        for method, verb, endpoint, summary, takes, gives in table
        for place in _PLACES
    )
    no_verb = _no_verb([verb for method, verb, *_ in table if method == "POST"])
    others = (
        DescribedRoute(
            *("POST", f"{place}:{{verb}}", no_verb, "v1/none", _json.error_answer),
            summary="There is no such verb; answers 404.",
            takes={_json.JSON: {}},
            needs_body=False,
        )
        for place in _PLACES
    )
    return (*described, *others)


def _no_verb(verbs: Sequence[str]) -> Endpoint:
    async def no_verb(call: Call) -> Answer:
        msg = f"there is no :{call.fields['verb'][:100]} (there are: {', '.join(verbs)})"
        raise ReferenceNotFoundError(msg, remedy="ask for one of these")

    return no_verb


@dataclass(frozen=True)
class _Protocol:
    engine: Engine
    labels: Labels

    async def status(self, call: Call) -> Answer:
        """Tell how one version is, or all of them."""
        model = call.fields["model"]
        named = "version" in call.fields or "label" in call.fields
        chosen = (self._served(call)[0],) if named else versions(self.engine, model)
        return _json.answer(
            {
                "name": model,
                "ready": any(one.state == "READY" for one in chosen),
                "model_version_status": [
                    {
                        "version": str(one.number),
                        "state": _STATES[one.state],
                        "status": {
                            "error_code": "UNAVAILABLE" if one.state == "UNAVAILABLE" else "OK",
                            "error_message": "" if one.state == "READY" else one.reason,
                        },
                    }
                    for one in chosen
                ],
            }
        )

    async def metadata(self, call: Call) -> Answer:
        """Tell the signature."""
        served, _ = self._served(call)
        return _json.answer(
            {
                "model_spec": {"name": served.name, "signature_name": "", "version": str(served.number)},
                "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature_def(served)}}},
            }
        )

    async def predict(self, call: Call) -> Answer:
        """Answer in the form of the question: by rows, or by columns."""
        served, version = self._askable(call)
        by_rows, inputs = await aside(len(call.body), _predicted, call.body, served)
        reply = await self.engine.infer(ask(call, served.name, inputs, version=version))
        write = WORDS.rows if by_rows else WORDS.columns
        written = await aside(size_of(reply), write, reply.outputs)
        return _said(b"predictions" if by_rows else b"outputs", written, reply)

    async def classify(self, call: Call) -> Answer:
        """Answer with label and score of each class."""
        served, version = self._askable(call)
        field = classified_output(served.signature)
        inputs = await aside(len(call.body), _examples, call.body, served)
        reply = await self.engine.infer(ask(call, served.name, inputs, version=version, outputs=(field.name,)))
        written = (
            b",".join(
                b"[%b,%b]" % (msgspec.json.encode(label), as_constant(score, TOKENS)) for label, score in classes_of_row
            )
            for classes_of_row in classes(reply.outputs, field)
        )
        return _said(b"results", b"[" + b",".join(b"[" + row + b"]" for row in written) + b"]", reply)

    async def regress(self, call: Call) -> Answer:
        """Answer with one number a row."""
        served, version = self._askable(call)
        field = regressed_output(served.signature)
        inputs = await aside(len(call.body), _examples, call.body, served)
        reply = await self.engine.infer(ask(call, served.name, inputs, version=version, outputs=(field.name,)))
        numbers = (as_constant(number, TOKENS) for number in regressions(reply.outputs, field))
        return _said(b"results", b"[" + b",".join(numbers) + b"]", reply)

    def _askable(self, call: Call) -> tuple[Served, str]:
        served, version = self._served(call)
        return askable(self.engine, served.name, served.version), version

    def _served(self, call: Call) -> tuple[Served, str]:
        """Return a version, and the text by which it is asked for: empty where the rollout decides."""
        model = call.fields["model"]
        if label := call.fields.get("label"):
            known = self.labels(model)
            if label not in known:
                msg = f"model {model!r} has no label {label[:100]!r} (there are: {', '.join(sorted(known)) or 'none'})"
                raise ReferenceNotFoundError(msg)
            return self.engine.served(model, known[label]), known[label]
        if asked := call.fields.get("version"):
            found = [one for one in versions(self.engine, model) if asked in {str(one.number), one.version}]
            if not found:
                numbers = ", ".join(str(one.number) for one in versions(self.engine, model))
                msg = f"model {model!r} has no version {asked[:100]!r} (there are: {numbers})"
                raise ReferenceNotFoundError(msg)
            return found[0], found[0].version
        return self.engine.served(model), ""


def _predicted(content: bytes, served: Served) -> tuple[bool, Arrays]:
    body = _json.request(content)
    _require_signature(body)
    return inputs_of(body, served)


def _examples(content: bytes, served: Served) -> Arrays:
    body = _json.request(content)
    _require_signature(body)
    return examples_of(body, served)


def _require_signature(body: Mapping[str, _json.Raw]) -> None:
    name = _json.plain(body["signature_name"], "signature_name", str) if "signature_name" in body else ""
    if name not in {"", SIGNATURE}:
        msg = f"signature_name: no signature is called {name[:100]!r}; expected {SIGNATURE}"
        raise ReferenceNotFoundError(msg)


def signature_def(served: Served) -> dict[str, Any]:
    """Return a signature as the JSON of TensorFlow's ``SignatureDef``."""
    return {
        "inputs": {port.name: _tensor_info(port) for port in served.inputs},
        "outputs": {port.name: _tensor_info(port) for port in served.outputs},
        "method_name": "tensorflow/serving/predict",
    }


def _tensor_info(port: Port) -> dict[str, Any]:
    dims = [{"size": str(size), "name": ""} for size in port.shape]
    return {
        "dtype": _TYPES[port.datatype],
        "tensor_shape": {"dim": dims, "unknown_rank": False},
        "name": f"{port.name}:0",
    }


def _said(name: bytes, value: bytes, reply: Reply) -> Answer:
    return Answer(200, b'{"%b": %b}' % (name, value), {"content-type": _json.JSON, **made_by(reply)})
