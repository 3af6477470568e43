"""Readers of languages: YAML, JSON, XML, Python's literals, templates, TorchScript's code, StableHLO's text.

What our readers accept and Python's own too, they read to equal values.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import re
import xml.etree.ElementTree as ET

import yaml as theirs

from fuzz import _change, _formats, _look
from fuzz._run import Case
from vitrify.formats import _templates
from vitrify.formats._plain_json import decode
from vitrify.formats._stablehlo import text as stablehlo
from vitrify.formats._torch import script_code
from vitrify.reading import jinja, literal, xml, yaml
from vitrify.reading import json as our_json

WORDS = {
    "yaml": rb"""{ } [ ] ' " | >- &a *a !x ? - -1 1e999 ~ null \x41 # , : : 0x1f 0o7 1_000 .inf 2020-01-01 yes <<""",
    "json": rb"""{ } [ ] " , : null true -1 1e999 NaN \ud800 \u0000 99999999999999999999 {"a":1,"a":2}""",
    "xml": rb"""< > /> </a> <a> & &lt; &#0; &#x41; <!--x--> <![CDATA[x]]> <?x?> <!DOCTYPE xmlns="u" a:b""",
    "literal": rb"""{ } [ ] ( ) ' " , : None True -1 1j 1e5 b'x' '{3}x'{3} \x41 0x1f 1_0 () (1,) #""",
    "jinja": rb"""{{ }} {% %} {# #} - ~ | . ( ) [ ] ' " if else endif for in endfor set not is .__class__ attr loop""",
    "script": rb"""def class ( ) [ ] : , = -> return if else while True self torch ops . # \ '' "" ->""",
    "stablehlo": rb"""{ } ( ) < > %0 : -> = "stablehlo.custom_call" @f tensor<2x?xf32> loc # ^bb0 , dense<"0x00"> //""",
}
WORDS = {name: text.split(b" ") for name, text in WORDS.items()}
SPACES = (
    b" ",
    b"\n",
    b"\n  ",
    b"\n    ",
    b"\t",
    b"\r\n",
    b"\0",
    b"\xff",
    b"\xc2\x85",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
)
CODE = b"""class Net(Module):
  __parameters__ = ["w", ]
  w : Tensor
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    _0 = torch.add(x, self.w, alpha=1)
    if True:
      y = _0
    else:
      y = x
    return torch.mul(y, 2)
"""
LONG = 1 << 16
_MEANING = re.compile(r"\s*|~|[-+.\d][-+:._\dxXoOa-fA-FinINFTZtz ]*|(?i:null|yes|no|on|off|true|false)|=|<<")
"""Plain words that may mean something else than themselves."""
NO_BREAKS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")
"""They end a line for YAML 1.1 only, which Python's reader is of."""
TEXTS = {
    "json": [b'{"a": [1, 2.5, null, true, "x\\u00e4"], "b": {"c": {}}}', b'{"$tuple": [1, {"$float": "nan"}]}'],
    "xml": [b'<?xml version="1.0"?><a x="1"><b xmlns="urn:u">text &amp; more<c/></b><!-- c --></a>'],
    "literal": [b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }", b"[('a', '<i4'), ('b', '|S3', (2,))]"],
    "jinja": [
        b"{% set a = x['a' ~ b] %}{{ a | join(', ') }}{# c #}{% if a is defined and not b %}{{ m.role }}{% endif %}"
    ],
}


@functools.cache
def seeds(*, quick=False):
    from samples import directories, weights

    texts = {name: list(parts) for name, parts in TEXTS.items()}
    texts["yaml"] = [directories.MLMODEL.encode(), directories.KITFILE.encode()]
    texts["jinja"].append(weights.CHATML.encode())
    texts["stablehlo"] = [
        data
        for case in _formats.samples("stablehlo", quick=quick)
        for data in case.files.values()
        if not data.startswith(b"ML\xefR")
    ]
    texts["script"] = [CODE]
    return [Case(name, {"text": text}) for name, parts in texts.items() for text in parts]


def change(case, honest, chance):
    [data] = case.files.values()
    if chance.random() < 0.1:
        data = _runs(data, chance, WORDS[case.kind])
    elif chance.random() < 0.5:
        data = _change.changed(data, chance, (*WORDS[case.kind], *SPACES))
    else:
        data = _shuffled(data, chance, WORDS[case.kind])
    return Case(case.kind, {"text": data})


def _shuffled(data, chance, words):
    """Put words of the language into the text, or write one of nothing but them."""
    if chance.random() < 0.3:
        data = b""
    for _ in range(chance.choice((1, 3, 10, 40))):
        at = chance.randrange(len(data) + 1)
        data = data[:at] + chance.choice(words) + chance.choice((b"", b"", *SPACES[:4])) + data[at:]
    return data


def _runs(data, chance, words):
    """Put a run of one or two words in, long enough to show whoever looks for an end behind each of them."""
    word = b"".join(chance.choice((*words, *SPACES, b"\\")) for _ in range(chance.choice((1, 2, 3))))
    at = chance.randrange(len(data) + 1)
    return data[:at] + word * (LONG // max(1, len(word))) + data[at:] * chance.randrange(2)


def check(case):
    data = case.files["text"]
    return _look.ours(lambda: [CHECKS[case.kind](data)]) is not None


def _compare(value, read, data):
    """Compare a value with what another reader reads; what that refuses, nobody takes for something else."""
    try:
        other = read(data)
    except Exception:  # noqa: BLE001 (it may raise anything)
        return
    assert _same(value, other), (value, other)


def _yaml(data):
    value = yaml.parse(data, where="x")
    if not any(mark in data for mark in NO_BREAKS):
        _compare(_as_text(value), lambda text: _as_text(theirs.safe_load(text)), data)


def _as_text(value):
    """Return a value without what its scalars mean, of which there are two versions of YAML and our subset of them."""
    if isinstance(value, dict):
        return [(_as_text(key), _as_text(part)) for key, part in value.items()]
    if isinstance(value, list):
        return [_as_text(part) for part in value]
    return value if isinstance(value, str) and not _MEANING.fullmatch(value) else None


def _json(data):
    value = our_json.parse(data, where="x")
    _compare(value, json.loads, data)
    decode(value, where="x")


def _xml(data):
    def told(element):
        return [element.tag, *map(told, element.children)]

    def read(text):
        return other(ET.fromstring(text))

    def other(element):
        return [element.tag.rpartition("}")[2], *map(other, element)]

    _compare(told(xml.parse(memoryview(data), where="x")), read, data)


def _literal(data):
    text = data.decode(errors="replace")
    _compare(literal.parse(text, where="x"), lambda text: _decoded(ast.literal_eval(text)), text.strip())


def _decoded(value):
    """Return a value with text where Python 3 reads bytes: what wrote such literals was Python 2."""
    if isinstance(value, dict):
        return {_decoded(key): _decoded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_decoded, value))
    return value.decode("latin1") if isinstance(value, bytes) else value


def _jinja(data):
    text = data.decode(errors="replace")
    list(_templates.findings(text, place="x"))
    jinja.parse(text, where="x")


def _same(one, other):
    """Compare values of every depth by their types too; NaN is NaN."""
    todo = [(one, other)]
    while todo:
        one, other = todo.pop()
        if type(one) is not type(other):
            return False
        if isinstance(one, dict):
            if list(one) != list(other):
                return False
            todo += zip(one.values(), other.values(), strict=True)
        elif isinstance(one, list | tuple):
            if len(one) != len(other):
                return False
            todo += zip(one, other, strict=True)
        elif one != other and not (isinstance(one, float) and math.isnan(one) and math.isnan(other)):
            return False
    return True


CHECKS = {
    "yaml": _yaml,
    "json": _json,
    "xml": _xml,
    "literal": _literal,
    "jinja": _jinja,
    "script": lambda data: script_code.parse(data.decode(errors="replace"), "__torch__", where="x"),
    "stablehlo": lambda data: stablehlo.read(memoryview(data), where="x"),
}
