"""Kubernetes' own types, asked whether they know every field of a manifest."""

from __future__ import annotations

import re
from datetime import datetime

_LIST = re.compile(r"[lL]ist\[(.*)\]")
_DICT = re.compile(r"[dD]ict[(\[]str, (.*)[)\]]")
_PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "datetime": datetime, "object": object}


def problems(data, kind, types, where="$"):
    """Return what a generated class does not know, or takes for something else, with the place of each.

    Args:
        data: Of a YAML file.
        kind: The name of the class, as its ``openapi_types`` write it.
        types: Finds a class by that name; modules, asked one after the other.
        where: The place of ``data``.
    """
    if found := _LIST.fullmatch(kind):
        if not isinstance(data, list):
            return [f"{where}: no list"]
        return [one for at, item in enumerate(data) for one in problems(item, found[1], types, f"{where}[{at}]")]
    if found := _DICT.fullmatch(kind):
        if not isinstance(data, dict):
            return [f"{where}: no mapping"]
        return [one for key, item in data.items() for one in problems(item, found[1], types, f"{where}.{key}")]
    if kind in _PLAIN:
        right = isinstance(data, _PLAIN[kind]) and (kind in {"bool", "object"} or not isinstance(data, bool))
        return [] if right else [f"{where}: {data!r} is no {kind}"]
    return _of_class(data, kind, types, where)


def _of_class(data, kind, types, where):
    model = next((getattr(module, kind) for module in types if hasattr(module, kind)), None)
    if model is None:  # a number or a text, such as a port
        return [] if kind in {"IntOrString", "ResourceQuantity"} else [f"{where}: nobody knows {kind}"]
    if not isinstance(data, dict):
        return [f"{where}: no {kind}"]
    names = {written: name for name, written in model.attribute_map.items()}
    found = [f"{where}.{key}: {kind} has no such field" for key in data if key not in names]
    known = {key: value for key, value in data.items() if key in names}
    for key, value in known.items():
        found += problems(value, model.openapi_types[names[key]], types, f"{where}.{key}")
    if not found:
        try:
            model(**{names[key]: value for key, value in known.items()})  # which looks for what is required
        except ValueError as error:
            found.append(f"{where}: {error}")
    return found
