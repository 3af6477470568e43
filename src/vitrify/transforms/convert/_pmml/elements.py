"""XML as values: elements, and numbers and text as PMML spells them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn
from xml.etree.ElementTree import Element, indent, tostring

import numpy as np

from vitrify.core.errors import UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NAMESPACE = "http://www.dmg.org/PMML-4_4"
_FORBIDDEN = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, https://www.w3.org/TR/xml/#charsets."""
_REFERRING = frozenset({"FieldRef", "NormDiscrete", "NormContinuous", "FieldColumnPair", "Discretize"})


def element(
    tag: str, attributes: Mapping[str, Any] | None = None, *children: Element, text: str | None = None
) -> Element:
    """Return an element; attributes that are None are left out."""
    made = Element(tag, {key: spelled(value) for key, value in (attributes or {}).items() if value is not None})
    made.extend(children)
    made.text = None if text is None else spelled(text)
    if made.text and "\r" in made.text:  # XML reads it as the end of a line
        refuse_text(made.text, "\r")
    return made


def spelled(value: Any) -> str:
    """Return a value as text: numbers so that reading gives the same bits, labels as PMML's types spell them.

    Raises:
        UnsupportedModelError: It is infinite or NaN, or text that XML cannot hold.
    """
    if isinstance(value, np.float32):
        return _finite(float(value), str(value))
    if isinstance(value, float | np.floating):
        return _finite(float(value), repr(float(value)))
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    text = str(value)
    if found := _FORBIDDEN.search(text):
        refuse_text(text, found.group())
    return text


def refuse_text(text: str, character: str) -> NoReturn:
    """Say which text XML cannot hold.

    Raises:
        UnsupportedModelError: Always.
    """
    msg = f"holds text that XML cannot write: {text[:40]!r} has the character {character!r}"
    raise UnsupportedModelError(msg, remedy="rename that column, category or label")


def _finite(value: float, text: str) -> str:
    if not np.isfinite(value):
        msg = f"holds the number {text}, which PMML has no place for"
        raise UnsupportedModelError(msg, remedy="train it without infinite or missing parameters")
    return text


def array(values: Iterable[Any]) -> Element:
    """Return an array of numbers."""
    listed = [spelled(float(value)) for value in values]
    return element("Array", {"type": "real", "n": len(listed)}, text=" ".join(listed))


def constant(value: Any) -> Element:
    """Return a constant in an expression, in its own type."""
    kind = "float" if isinstance(value, np.float32) else "string" if isinstance(value, str) else "double"
    return element("Constant", {"dataType": kind}, text=value if isinstance(value, str) else spelled(_number(value)))


def _number(value: Any) -> Any:
    return value if isinstance(value, np.float32) else float(value)


def apply(function: str, *arguments: Element) -> Element:
    """Return the call of one of PMML's functions."""
    return element("Apply", {"function": function}, *arguments)


def reference(name: str) -> Element:
    """Return the value of a field."""
    return element("FieldRef", {"field": name})


def references(expression: Element) -> Iterator[str]:
    """Yield the names of the fields that an expression looks at."""
    for one in expression.iter():
        if one.tag in _REFERRING:
            yield one.attrib["field"]


def written(root: Element) -> bytes:
    """Return a document's bytes: the same for the same elements."""
    root.set("xmlns", NAMESPACE)
    indent(root, space="")
    content: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
