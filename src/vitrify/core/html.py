"""Text and tables as HTML: what ``_repr_html_`` returns, what is written into drawings, and what a page may do."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_INVISIBLE = re.compile(
    r"[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""What XML forbids, what no reader sees, and what turns the reading direction."""


_OWN, _NONE = ("style", "script"), "'none'"


def escape(text: str) -> str:
    """Return text as HTML and as XML; what nobody could see, or no XML may hold, is a mark instead."""
    return html.escape(_INVISIBLE.sub("\ufffd", text))


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """Return a table; every text in it is escaped."""
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def styled(page: str) -> str:
    """Return a page with the style of all our pages where its own style begins with ``/* page.css */``."""
    return page.replace("/* page.css */", _house_style(), 1)


@cache
def _house_style() -> str:
    return files("vitrify.core").joinpath("page.css").read_text("utf-8")


def page_headers(page: str) -> dict[str, str]:
    """Return the headers of a whole page: it may run its own script, take its own style, ask its own server, no more.

    Args:
        page: As it is before anything that others have written is put in: what stands in it is allowed.

    Source: https://www.w3.org/TR/CSP3/
    """
    style, script = (" ".join(map(_hashed, re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL))) for tag in _OWN)
    return {
        "content-type": "text/html; charset=utf-8",
        "content-security-policy": (
            f"default-src 'none'; script-src {script or _NONE}; style-src {style or _NONE}; connect-src 'self'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
