"""A saved model's main file without what changes from run to run, so that the same model gives the same bytes.

TensorFlow counts the functions of a process in their names, keeps its library in their order, and names captured
inputs after addresses and tables at random. Here functions and tables are counted in the order in which they are met.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.formats._tensorflow.loaded import saved_model_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNTED = re.compile(r"_\d+$")
_TRAINING = (
    *("_gradient_op_type", "forward_function_name", "backward_function_name"),
    *("api_implements", "api_preferred_device"),  # which of two layers a GPU would take, by a random name
)
_GIVEN = "_user_specified_name"
_FILLER = re.compile(r"\b(key_value_init)\d+")
_LOOKUP = re.compile(r"\b(?:[Nn]one|hash_table)_([Ll]ookup)")
"""A table learns its name only when it is saved for the first time."""
_SHARED = "shared_name"
_RANDOM = re.compile(rb"(.*?)_?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+)")


def canonical(content: bytes) -> bytes:
    """Return a saved model's main file with its functions renamed and its maps in order."""
    model = saved_model_pb2.SavedModel.FromString(content)
    for meta in model.meta_graphs:
        library = meta.graph_def.library
        tables: dict[bytes, bytes] = {}
        _replace(meta, Renaming(_renamed(meta)))
        functions = sorted(library.function, key=lambda function: function.signature.name)
        del library.function[:]
        library.function.extend(functions)
        for nodes in (meta.graph_def.node, *(function.node_def for function in library.function)):
            for node in nodes:
                _tidy(node.attr, tables if "Table" in node.op else None)
        for function in library.function:
            _tidy(function.attr)
            for argument in function.arg_attr.values():
                _tidy(argument.attr)
    return bytes(model.SerializeToString(deterministic=True))


def _tidy(attributes: Any, tables: dict[bytes, bytes] | None = None) -> None:
    """Drop what training needs, names that TensorFlow made up of a number, and random parts of tables' names."""
    for name in _TRAINING:
        attributes.pop(name, None)
    if _GIVEN in attributes and attributes[_GIVEN].s.isdigit():
        del attributes[_GIVEN]
    if tables is not None and _SHARED in attributes and (found := _RANDOM.fullmatch(attributes[_SHARED].s)):
        plain = found[1] or b"table"
        attributes[_SHARED].s = tables.setdefault(attributes[_SHARED].s, plain + b"_%d" % len(tables))


def _renamed(meta: Any) -> dict[str, str]:
    """Return a name for each function: its own without its number, counted anew where two are the same."""
    bodies = {function.signature.name: function for function in meta.graph_def.library.function}
    order: dict[str, None] = {}
    saved = meta.object_graph_def
    starts = [name for node in meta.graph_def.node for name in _named(node, bodies)]
    starts += [name for node in saved.nodes for name in _named(node, bodies)]
    waiting = [*starts, *sorted(bodies.keys() - set(starts))][::-1]
    while waiting:
        name = waiting.pop()
        if name not in order:
            order[name] = None
            waiting += [called for node in bodies[name].node_def for called in _named(node, bodies)][::-1]
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}
    for name in order:
        plain = _COUNTED.sub("", name)
        names[name] = f"{plain}_{counts[plain]}"
        counts[plain] += 1
    return names


def _named(message: Any, known: dict[str, Any]) -> Iterator[str]:
    """Yield each text in a message that is the name of a function, maps in the order of their keys."""
    for field, value in message.ListFields():
        for part in _parts(field, value):
            if isinstance(part, str):
                if part in known:
                    yield part
            elif hasattr(part, "ListFields"):
                yield from _named(part, known)


def _parts(field: Any, value: Any) -> list[Any]:
    if _is_map(field):
        return [part for key in sorted(value) for part in (key, value[key])]
    return list(value) if field.is_repeated else [value]


def _is_map(field: Any) -> bool:
    return bool(field.message_type and field.message_type.GetOptions().map_entry)


class Renaming:
    """From the names that a process counted to ours; the nodes that fill a table are counted too."""

    def __init__(self, names: dict[str, str]) -> None:
        """Take the functions' new names."""
        self._names = names
        self._fillers: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return the new name."""
        return self._names.get(text) or _LOOKUP.sub(r"table_\1", _FILLER.sub(self._filler, text))

    def _filler(self, found: re.Match[str]) -> str:
        return self._fillers.setdefault(found[0], f"{found[1]}_{len(self._fillers)}")


def _replace(message: Any, rename: Renaming) -> None:
    """Rename each text of a message, wherever it stands."""
    for field, value in message.ListFields():
        if _is_map(field):
            _replace_keys(field, value, rename)
        elif field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                _replace(part, rename)
        elif field.type == field.TYPE_STRING:
            if field.is_repeated:
                value[:] = [rename(text) for text in value]
            else:
                setattr(message, field.name, rename(value))


def _replace_keys(field: Any, value: Any, rename: Renaming) -> None:
    holds_messages = field.message_type.fields_by_name["value"].type == field.TYPE_MESSAGE
    items = [(key, value[key]) for key in sorted(value)]
    if holds_messages:
        copies = []
        for key, part in items:
            _replace(part, rename)
            copies.append((_renamed_key(key, rename), type(part).FromString(part.SerializeToString())))
        value.clear()
        for key, part in copies:
            value[key].CopyFrom(part)
    else:
        value.clear()
        for key, part in items:
            value[_renamed_key(key, rename)] = rename(part) if isinstance(part, str) else part


def _renamed_key(key: Any, rename: Renaming) -> Any:
    return rename(key) if isinstance(key, str) else key
