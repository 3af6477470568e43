"""Labels and names: a column may be called 2, True, None or ("a", 1); a field's name is always text.

A field keeps in ``key`` the label that is not its name. ``None`` there means "the name is the label", so the label
None is written as the tuple ``(None,)``.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import SignatureError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.core.signature import Field, Scalar

    Key = Scalar | tuple[Scalar, ...]

_MAX_INT = 2**63


def label(field: Field) -> Any:
    """Return what the container itself calls this field."""
    if field.key is None:
        return field.name
    return None if field.key == (None,) else field.key


def named(labels: Iterable[Any]) -> list[tuple[str, Key]]:
    """Return a unique name and the key for each label; text that is not empty stays its own name.

    Raises:
        SignatureError: Two labels are equal, or one is of a kind that cannot be kept; all are listed.
    """
    labels = list(labels)
    unique(labels)
    keys = [_key(value) for value in labels]
    taken = {value for value in labels if isinstance(value, str)}
    result: list[tuple[str, Key]] = []
    for position, value in enumerate(labels):
        if isinstance(value, str) and value:
            result.append((value, None))
            continue
        name = fresh(_text(value) or f"column_{position}", taken)
        taken.add(name)
        result.append((name, keys[position]))
    return result


def names(labels: Iterable[Any], fields: tuple[Field, ...]) -> dict[Any, str]:
    """Return the field name that each label of given data means; a label that no field knows gets its own text.

    A label is a field's label, or, where nothing in the data is called so, its name: column ``"2"`` of a file is
    what was fitted as column ``2``.

    Raises:
        SignatureError: Two labels that mean a field are equal.
    """
    labels = list(labels)
    by_label = {label(field): field.name for field in fields}
    unique(value for value in labels if not fields or value in by_label)
    given = set(labels)
    by_name = {field.name: field.name for field in fields if label(field) not in given}
    known = {value: by_label.get(value) or by_name.get(value) for value in labels}
    taken = {name for name in known.values() if name}
    for value, name in known.items():
        if name is None:
            known[value] = fresh(str(value), taken)
            taken.add(str(known[value]))
    return {value: name for value, name in known.items() if name is not None}


def unique(labels: Iterable[Any]) -> None:
    """Refuse labels that are equal, as 1 and True are."""
    twice = {repr(value) for value, count in Counter(labels).items() if count > 1}
    if twice:
        msg = f"more than one column is called {', '.join(sorted(twice))}; inputs are matched by name"
        raise SignatureError(msg, remedy="give every column its own name")


def fresh(name: str, taken: set[str]) -> str:
    """Return ``name``, with a number behind it where it is taken."""
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def encodable(text: str) -> bool:
    """Say whether text can be written as JSON: it has no half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _text(value: Any) -> str:
    return "_".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _key(value: Any) -> Key:
    match value:
        case None:
            return (None,)
        case tuple() if value != (None,):
            return tuple(_scalar(part) for part in value)
        case _:
            return _scalar(value)


def _scalar(value: Any) -> Scalar:
    plain = value.item() if type(value).__module__ == "numpy" else value
    match plain:
        case None | bool():
            return plain
        case str() if encodable(plain):
            return str(plain)
        case int() if -_MAX_INT <= plain < _MAX_INT:
            return plain
        case float() if math.isfinite(plain):
            return plain
    msg = (
        f"a column is called {value!r}, a {type(value).__name__}; a name is text, a number, a boolean, None or a tuple"
    )
    raise SignatureError(msg, remedy="rename it, for example: frame.columns = frame.columns.map(str)")
