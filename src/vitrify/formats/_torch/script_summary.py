"""What a TorchScript file says about itself, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats import _facts
from vitrify.formats._torch.summary import listed

if TYPE_CHECKING:
    from vitrify.formats._torch.script import Script
    from vitrify.formats._torch.script_code import Class

_MAX_CLASSES = 500


def of(script: Script) -> dict[str, Any]:
    """Return classes, methods, operators and tensors.

    Raises:
        MalformedError: Its pickles or its code are none.
        LimitExceededError: It is larger than what is read from a stranger.
    """
    classes, functions = script.program()
    main = classes.get(script.main)
    forward = main.methods.get("forward") if main else None
    inputs = [_facts.port(name, kind, None) for name, kind in forward.parameters if name != "self"] if forward else []
    versions = {key: script.note(name) for key, name in (("torchscript", "version"), ("archive", ".data/version"))}
    return {
        "producer": "PyTorch",
        "library": "torch",
        "class": script.main.removeprefix("__torch__."),
        "versions": {key: text for key, text in versions.items() if text},
        "inputs": inputs,
        "outputs": [_facts.port("", forward.result, None)] if forward else [],
        "operators": script.operators(),
        **listed(script.tensors()),
        "classes_of_code": [_class(one) for one in list(classes.values())[:_MAX_CLASSES]],
        "functions": {name.removeprefix("__torch__."): one.signature for name, one in functions.items()},
        "mobile": f"{script.root}bytecode.pkl" in script.archive,
        "code": False,
    }


def _class(cls: Class) -> dict[str, Any]:
    return {
        "name": cls.name.removeprefix("__torch__."),
        "attributes": {name: kind.removeprefix("__torch__.") for name, kind in cls.attributes.items()},
        "methods": {name: method.signature for name, method in cls.methods.items()},
    }
