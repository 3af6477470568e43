"""The page that shows the models: names, types, and a form to try each. Nothing is fetched from elsewhere.

What stands in the page's own script and style is allowed by its hash; nothing else can run there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from vitrify.core.html import escape, html_table, styled
from vitrify.serve.protocols._openapi_models import example, first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vitrify.serve.models import Served
    from vitrify.serve.ports import Port

_MOST_FIELDS = 200

_STYLE = """/* page.css */
caption { text-align: left; padding: .35rem .8rem; color: var(--soft); }
code, pre, textarea { font: .9rem ui-monospace, monospace; }
table, form { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; margin: .6rem 0; }
form { display: block; padding: .7rem .9rem; }
textarea { width: 100%; height: 10rem; color: inherit; background: var(--ground); border: 1px solid var(--edge); }
pre { overflow: auto; margin: .6rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; }
label { display: grid; grid-template-columns: minmax(8rem, 16rem) minmax(8rem, 20rem); margin: .2rem 0; }
a { color: var(--first); }
"""
_SCRIPT = """
const literal = (field) => field.dataset.datatype === "BYTES" ? JSON.stringify(field.value) : field.value;
const tensor = (field) => '{"name": ' + JSON.stringify(field.name) + ', "shape": [1], "datatype": "' +
  field.dataset.datatype + '", "data": [' + (field.value === "" && field.dataset.nullable ? "null" : literal(field)) +
  ']}';
for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const whole = form.querySelector("textarea");
    const fields = [...form.querySelectorAll("input[data-datatype]")];
    const body = whole ? whole.value : '{"inputs": [' + fields.map(tensor).join(", ") + ']}';
    const headers = {"content-type": "application/json"};
    const token = form.querySelector("input[type=password]").value;
    if (token) headers.authorization = "Bearer " + token;
    const shown = form.querySelector("pre");
    try {
      const answer = await fetch(form.action, {method: "POST", headers, body});
      shown.className = answer.ok ? "" : "bad";
      shown.textContent = await answer.text();
    } catch (error) {
      shown.className = "bad";
      shown.textContent = String(error);
    }
  });
}
"""


def page(models: Iterable[Served]) -> str:
    """Return the page of some models."""
    sections = "".join(map(_section, models)) or "<p>No model is served.</p>"
    return styled(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Models</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style>'
        '</head><body><h1>Models</h1><p>All routes: <a href="/openapi.json">openapi.json</a>. '
        'What happens now: <a href="/dashboard">dashboard</a>.</p>'
        f"{sections}<script>{_SCRIPT}</script></body></html>"
    )


def _section(served: Served) -> str:
    place = f"/v2/models/{quote(served.name, safe='')}/versions/{quote(served.version, safe='')}"
    reason = f" ({escape(served.reason)})" if served.reason else ""
    return (
        f"<section><h2>{escape(served.name)}, version {escape(served.version)}</h2>"
        f"<p>{escape(served.state)}{reason}; {escape(served.platform)}; <code>{escape(served.digest)}</code>; "
        f'<a href="{escape(place)}/openapi.json">openapi.json</a></p>'
        f"{_fields('Inputs', served.inputs)}{_fields('Outputs', served.outputs)}{_form(served, place)}</section>"
    )


def _fields(title: str, ports: tuple[Port, ...]) -> str:
    rows = [
        (
            *(port.name, port.field.dtype, port.datatype, ", ".join(map(str, port.field.shape))),
            "yes" if port.field.nullable else "no",
        )
        for port in ports
    ]
    return html_table(("name", "type", "on the wire", "shape", "may be missing"), rows, caption=title)


def _form(served: Served, place: str) -> str:
    if all(len(port.shape) == 1 for port in served.inputs) and len(served.inputs) <= _MOST_FIELDS:
        asked = "".join(map(_input, served.inputs))
    else:
        text = msgspec.json.format(msgspec.json.encode(example(served)), indent=1).decode()
        asked = f'<label for="body-{escape(place)}">The request</label>'
        asked += f'<textarea id="body-{escape(place)}">{escape(text)}</textarea>'
    return (
        f'<form action="{escape(place)}/infer" method="post">{asked}'
        '<label>Token, where one is needed <input type="password" autocomplete="off"></label>'
        '<button>Ask</button><pre aria-live="polite"></pre></form>'
    )


def _input(port: Port) -> str:
    value = first(port)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return (
        f'<label>{escape(port.name)} <input name="{escape(port.name)}" value="{escape(text)}" '
        f'data-datatype="{port.datatype}"{" data-nullable=yes" if port.field.nullable else ""}></label>'
    )
