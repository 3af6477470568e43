"""What in a configuration runs code, or reads files, when Keras builds the model from it.

Every object of the JSON is looked at wherever it stands: which of them Keras builds depends on the classes around
them and on its version. What is not in the table of :mod:`.names` is somebody's code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._keras.names import DATA, SPECIFICATIONS, names
from vitrify.formats._keras.saved import class_of, inside
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FINDINGS = 1000
MAX_PATH = 300

_BRING = "install the package that defines it, read that code, then allow it by this name"
_ROLES = {
    "activation": ("activations",),
    "initializer": ("initializers",),
    "regularizer": ("regularizers",),
    "constraint": ("constraints",),
    "optimizer": ("optimizers",),
    "loss": ("losses", "metrics"),
    "losses": ("losses", "metrics"),
    "metrics": ("metrics", "losses"),
    "fn": ("metrics", "losses", "activations"),
}
_CALLED = frozenset({"function", "call_fn", "init_fn", "mask", "output_shape"})
_BY_OUTPUT = frozenset({"loss", "metrics", "weighted_metrics"})
_FILES = frozenset({"vocabulary", "idf_weights", "filepath", "filename", "file", "path", "saved_model", "directory"})
_OUTSIDE = re.compile(r"(?:file|https?|ftp|s3|gs|hf|hdfs|kaggle)://|/\w|~/|[A-Za-z]:[\\/]|\\\\|(?:.*[\\/])?\.\.[\\/]")
_OPERATORS = {"TFOpLambda": "function", "SlicingOpLambda": "function", "TensorFlowOpLayer": "name"}


def hazards(config: Any, *, where: str) -> Iterator[Finding]:
    """Yield the findings of a configuration, each with its place in it as a JSON path.

    Raises:
        LimitExceededError: There are more than are worth listing.
    """
    waiting: list[tuple[str, str, Any]] = [("$", "", config)]
    count = 0
    while waiting:
        path, key, value = waiting.pop()
        for finding in _findings(f"{where}: {path[:MAX_PATH]}", key, value):
            count += 1
            if count > MAX_FINDINGS:
                exceed(where, f"more than {MAX_FINDINGS} findings")
            yield finding
        if isinstance(value, dict):
            # Losses and metrics may be listed by the name of an output.
            inner = key if key in _BY_OUTPUT and "class_name" not in value else ""
            parts = [(f"{path}.{name}"[: MAX_PATH + 1], inner or name, part) for name, part in value.items()]
            waiting += parts[::-1]
        elif isinstance(value, list):
            # What stands in a list has the role of the list; a vocabulary is data.
            inner = "" if key in _FILES or key in _CALLED else key
            parts = [(f"{path}[{at}]", inner, part) for at, part in enumerate(value) if not _plain(part, inner)]
            waiting += parts[::-1]


def _plain(part: Any, key: str) -> bool:
    return not isinstance(part, dict | list) and (not isinstance(part, str) or not _role(key))


def _findings(place: str, key: str, value: Any) -> Iterator[Finding]:
    if isinstance(value, str):
        yield from _word(place, key, value)
    elif isinstance(value, dict) and "class_name" in value:
        yield from _object(place, value)


def _object(place: str, value: dict[str, Any]) -> Iterator[Finding]:
    name = value["class_name"]
    if not isinstance(name, str):
        message = f"a class whose name is a {type(name).__name__}"
        yield Finding(place=place, message=message, rule="untrusted-global", subject="?")
    elif name == "__lambda__":
        yield _code(place, "a lambda")
    elif name in {"__typespec__", "TypeSpec"}:
        yield from _specification(place, value)
    elif name == "function":
        yield from _function(place, value)
    elif name in _HELD:
        yield from _HELD[name](place, value)
        if _text(value, "module") not in {None, "keras.layers"}:
            yield from _class(place, name, value)
    elif name not in DATA:
        yield from _class(place, name, value)


def _class(place: str, name: str, value: dict[str, Any]) -> Iterator[Finding]:
    module, registered = _text(value, "module"), _text(value, "registered_name")
    dotted = f"{module}.{name}" if module else name
    known = dotted in names().classes if module else name in names().bare
    ours = registered in {None, name, dotted, f"keras>{name}", f"Keras>{name}"}
    if not (known and ours) and not (module is None and name.startswith("Keras>") and name[6:] in names().bare):
        subject = registered if registered and ">" in registered else dotted
        message = f"the class {subject!r:.200}, which is not Keras' own: whatever has that name is built and called"
        yield Finding(place=place, message=message, rule="untrusted-global", subject=subject, remedy=_BRING)


def _function(place: str, value: dict[str, Any]) -> Iterator[Finding]:
    inner, module, registered = value.get("config"), _text(value, "module"), _text(value, "registered_name")
    name = _text(inner, "name") if isinstance(inner, dict) else _text(value, "config")
    table = names()
    known = name in table.called if module in {None, "builtins"} else f"{module}.{name}" in table.functions
    if not known or registered not in {None, name, "function", f"{module}.{name}"}:
        yield _called(place, f"{module}.{name}" if module else str(name))


def _lambda(place: str, value: dict[str, Any]) -> Iterator[Finding]:
    """Look at a layer that calls what its configuration names; a function of Keras' own is harmless there too."""
    inner = inside(value)
    for key in ("function", "output_shape", "mask", "mode"):
        function = inner.get(key) if isinstance(inner, dict) else None
        kind = inner.get(f"{key}_type") if isinstance(inner, dict) else None
        if key == "mode" and kind in {None, "raw"}:
            continue  # how Merge of Keras 1 puts its inputs together, by a word
        if isinstance(function, str) and kind != "lambda":
            module = inner.get("module" if key == "function" else f"{key}_module")
            dotted = f"{module}.{function}" if module else function
            if dotted not in names().functions:
                yield _called(f"{place}.config.{key}", dotted)
        elif kind == "lambda" or (isinstance(function, list) and any(isinstance(part, str) for part in function)):
            yield _code(f"{place}.config.{key}", "a lambda")
    if class_of(value) == "Lambda" and (not isinstance(inner, dict) or inner.get("function") is None):
        yield _code(place, "a Lambda layer without its function")


def _operator(place: str, value: dict[str, Any]) -> Iterator[Finding]:
    inner = inside(value)
    key = _OPERATORS[value["class_name"]]
    subject = f"tensorflow.{inner.get(key) if isinstance(inner, dict) else None}"
    message = f"{subject!r:.200}, called by its name in TensorFlow, which reads and writes files too"
    yield Finding(place=place, message=message, rule="untrusted-global", subject=subject, remedy=_BRING)


def _saved_model(place: str, value: dict[str, Any]) -> Iterator[Finding]:
    inner = inside(value)
    subject = str(inner.get("filepath", "")) if isinstance(inner, dict) else ""
    message = f"a layer that loads a TensorFlow SavedModel, with all its operators, from {subject!r:.200}"
    yield Finding(place=place, message=message, rule="path", subject=subject, remedy="look at that model on its own")


def _pickled(place: str, value: dict[str, Any]) -> Iterator[Finding]:  # noqa: ARG001 (one signature)
    message = "a PyTorch module as a pickle, which runs what is in it"
    yield Finding(place=place, message=message, rule="pickled-module", subject="TorchModuleWrapper", remedy=_BRING)


_HELD = {
    "Lambda": _lambda,
    "Merge": _lambda,
    "TFSMLayer": _saved_model,
    "TorchModuleWrapper": _pickled,
    **dict.fromkeys(_OPERATORS, _operator),
}


def _specification(place: str, value: dict[str, Any]) -> Iterator[Finding]:
    old = value["class_name"] == "TypeSpec"
    name = _text(value, "type_spec" if old else "spec_name")
    dotted = f"{_text(value, 'module')}.{name}"
    known = any(one.endswith(f".{name}") for one in SPECIFICATIONS) if old else dotted in SPECIFICATIONS
    if not known:
        yield _called(place, str(name) if old else dotted)


def _word(place: str, key: str, value: str) -> Iterator[Finding]:
    if key in _FILES:
        message = f"the file {value!r:.200} is read from the machine that loads the model"
        yield Finding(place=place, message=message, rule="path", subject=value, remedy="ask for it inside the model")
    elif roles := _role(key):
        table = names().words
        if not any(value in table[role] or value.lower() in table[role] for role in roles) and not _own(value):
            yield _called(place, value)
    elif key != "name" and _OUTSIDE.match(value):
        message = f"the path or address {value!r:.200}, outside of the model"
        yield Finding(place=place, message=message, rule="path", subject=value, remedy="ask for it inside the model")


def _text(value: dict[str, Any], key: str) -> str | None:
    """Return what should be text or null; what is neither is named, and is known to no table."""
    part = value.get(key)
    return part if part is None or isinstance(part, str) else f"<{type(part).__name__}>"


def _own(value: str) -> bool:
    return value in names().functions or value in names().classes or value in names().bare


def _role(key: str) -> tuple[str, ...]:
    """Return what a text under this key stands for: ``recurrent_activation`` is an activation."""
    return _ROLES.get(key) or _ROLES.get(key.rpartition("_")[2]) or ()


def _called(place: str, subject: str) -> Finding:
    message = f"{subject!r:.200}, which is not Keras' own: whatever has that name is called"
    return Finding(place=place, message=message, rule="untrusted-global", subject=subject, remedy=_BRING)


def _code(place: str, what: str) -> Finding:
    message = f"{what} as Python byte code, which runs when the model is loaded with safe_mode=False, or called"
    remedy = "ask for the model with a layer class instead of Lambda"
    return Finding(place=place, message=message, rule="lambda-code", subject="Lambda", remedy=remedy)
