"""What a saved Keras model says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._facts import counts, port, weights
from vitrify.formats._hdf5.facts import tensors
from vitrify.formats._keras.hazards import hazards
from vitrify.formats._keras.saved import MODELS, class_of, inside, layers, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.formats._keras.saved import Saved

_NOT_THE_MODEL = ("optimizer/", "optimizer_weights/")
_CODE = frozenset({"lambda-code", "untrusted-global", "pickled-module"})
_LEFT_OUT = frozenset({"name", "trainable", "dtype", "layers", "batch_shape", "batch_input_shape", "build_input_shape"})
MAX_TEXT = 80
MAX_SIZE = 1 << 63


def describe(saved: Saved) -> dict[str, Any]:
    """Return the facts as JSON; see :mod:`vitrify.formats`."""
    stored = [one for file in saved.weights for one in tensors(file)]
    mine = [one for one in stored if not one["name"].startswith(_NOT_THE_MODEL)]
    found = {**saved.facts, **weights(mine)}
    if saved.config is not None:
        listed = list(walk(saved.config))
        found |= {
            "class": class_of(saved.config),
            "name": name_of(saved.config),
            "inputs": inputs(saved.config),
            "outputs": outputs(saved.config),
            "layers": listed,
            "operators": counts(layer["class"] for layer in listed),
        }
    needs = sorted({one.subject for one in hazards([saved.config, saved.training], where="") if one.rule in _CODE})
    rest = [one for one in stored if one["name"].startswith(_NOT_THE_MODEL)]
    training = {**_training(saved.training), **({"bytes": sum(one["bytes"] for one in rest)} if rest else {})}
    return {**found, "needs": ["keras", *needs], "code": bool(needs), **({"training": training} if training else {})}


def walk(config: dict[str, Any], prefix: str = "") -> Iterator[dict[str, Any]]:
    """Yield each layer: its class, its name with those of the models around it, and what it was made with."""
    for layer in layers(config):
        name = f"{prefix}{name_of(layer)}"
        yield {"class": class_of(layer), "name": name, "config": summary(layer)}
        if class_of(layer) in MODELS:
            yield from walk(layer, f"{name}/")


def summary(layer: dict[str, Any]) -> dict[str, Any]:
    """Return what a layer was made with, as short values; what was left out or is a list of data is not there."""
    inner = inside(layer)
    return {
        key: shown
        for key, value in (inner.items() if isinstance(inner, dict) else ())
        if key not in _LEFT_OUT and (shown := _short(value)) is not None
    }


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return class_of(value) or None
    if isinstance(value, list):
        plain = len(value) <= 8 and all(isinstance(part, int | float | str) for part in value)  # noqa: PLR2004 (short)
        return value if plain else None
    return value[:MAX_TEXT] if isinstance(value, str) else value


def inputs(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the inputs: of a Functional model its input layers, of a Sequential one what it was built for."""
    found = [_input(layer) for layer in layers(config) if class_of(layer) == "InputLayer"]
    inner = inside(config)
    if found or not isinstance(inner, dict):
        return found
    first = next(layers(config), None)
    made = inside(first).get("batch_input_shape") if isinstance(inside(first), dict) else None
    shape = made or inner.get("build_input_shape")
    return (
        []
        if shape_of(shape) is None
        else [port(f"{name_of(config)}_input", _type(inner.get("dtype")), shape_of(shape))]
    )


def _input(layer: dict[str, Any]) -> dict[str, Any]:
    inner = inside(layer)
    inner = inner if isinstance(inner, dict) else {}
    shape = shape_of(inner.get("batch_shape", inner.get("batch_input_shape")))
    return port(name_of(layer), _type(inner.get("dtype")), shape)


def outputs(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the outputs; their shapes are not in the file."""
    inner = inside(config)
    listed = inner.get("output_layers") if isinstance(inner, dict) else None
    names = list(histories(listed)) if listed is not None else []
    if not names:
        last = [name_of(layer) for layer in layers(config)][-1:]
        return [port(name, "", None) for name in last if class_of(config) == "Sequential"]
    return [port(name if not (at or number) else f"{name}:{at}:{number}", "", None) for name, at, number in names]


def histories(value: Any) -> Iterator[tuple[str, int, int]]:
    """Yield what tensors a nested value of a configuration refers to: layer, call and output of each."""
    if isinstance(value, dict):
        inner = inside(value)
        if class_of(value) == "__keras_tensor__" and isinstance(inner, dict):
            yield from histories(inner.get("keras_history"))
        else:
            for part in value.values():
                yield from histories(part)
    elif isinstance(value, list):
        match value:
            case [str(name), int(at), int(number), *rest]:
                yield name, at, number
                yield from histories(rest)
            case _:
                for part in value:
                    yield from histories(part)


def shape_of(value: Any) -> list[int | str | None] | None:
    """Return a shape as the configuration has it; None where it is none."""
    if isinstance(value, list) and all(part is None or (isinstance(part, int) and part < MAX_SIZE) for part in value):
        return [None if part is None or part < 0 else part for part in value]
    return None


def _type(value: Any) -> str:
    if isinstance(value, dict):
        value = inside(value).get("name") if isinstance(inside(value), dict) else ""
    return value if isinstance(value, str) else ""


def _training(training: dict[str, Any] | None) -> dict[str, Any]:
    if training is None:
        return {}
    optimizer = training.get("optimizer_config", training.get("optimizer"))
    found = {"optimizer": _names(optimizer), "loss": _names(training.get("loss"))}
    found["metrics"] = _names(training.get("metrics"))
    return {key: value for key, value in found.items() if value}


def _names(value: Any) -> Any:
    if isinstance(value, dict):
        name = class_of(value)
        return (
            (value.get("config") if name == "function" else name) if name else {k: _names(v) for k, v in value.items()}
        )
    return [_names(part) for part in value] if isinstance(value, list) else value
