"""Readers of languages: YAML, JSON, XML, Python's literals, templates, TorchScript's code, StableHLO's text.

What our readers accept, Python's own read to an equal value, where there is one; templates that we parse, Jinja parses.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import xml.etree.ElementTree as ET

import jinja2
import yaml as theirs

from vitrify.formats import _templates
from vitrify.formats._plain_json import decode
from vitrify.formats._stablehlo import text as stablehlo
from vitrify.formats._torch import script_code
from vitrify.reading import jinja, literal, xml, yaml
from vitrify.reading import json as our_json

from fuzz import _change, _formats, _look
from fuzz._run import Case

WORDS = {
    "yaml": b"{ } [ ] ' \" | >- &a *a !x ? - -1 1e999 ~ null \\x41 # , : : 0x1f 0o7 1_000 .inf 2020-01-01 yes <<".split(b" "),
    "json": b'{ } [ ] " , : null true -1 1e999 NaN \\ud800 \\u0000 99999999999999999999 {"a":1,"a":2}'.split(b" "),
    "xml": b'< > /> </a> <a> & &lt; &#0; &#x41; <!--x--> <![CDATA[x]]> <?x?> <!DOCTYPE xmlns="u" a:b \xc3\xa4'.split(b" "),
    "literal": b"{ } [ ] ( ) ' \" , : None True -1 1j 1e5 b'x' '''x''' \\x41 0x1f 1_0 () (1,) #".split(b" "),
    "jinja": b"{{ }} {% %} {# #} - ~ | . ( ) [ ] ' \" if else endif for in endfor set not is defined .__class__ attr loop".split(b" "),
    "script": b"def class ( ) [ ] : , = -> return if else while True self torch ops . # \\ '' \"\" ->".split(b" "),
    "stablehlo": b'{ } ( ) < > %0 %1 : -> = "stablehlo.custom_call" @f tensor<2x?xf32> loc # ^bb0 , dense<"0x00"> //'.split(b" "),
}
SPACES = (b" ", b"\n", b"\n  ", b"\n    ", b"\t", b"\r\n", b"\0", b"\xff", b"\xc2\x85", b"\xef\xbb\xbf", b"\xe2\x80\xa8")
TEXTS = {
    "json": [b'{"a": [1, 2.5, null, true, "x\\u00e4"], "b": {"c": {}}}', b'{"$tuple": [1, {"$float": "nan"}]}'],
    "xml": [b'<?xml version="1.0"?><a x="1"><b xmlns="urn:u">text &amp; more<c/></b><!-- c --></a>'],
    "literal": [b"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }", b"[('a', '<i4'), ('b', '|S3', (2,))]"],
    "jinja": [b"{% set a = x['a' ~ b] %}{{ a | join(', ') }}{# c #}{% if a is defined and not b %}{{ m.role }}{% endif %}"],
}


@functools.cache
def seeds():
    from samples import directories, weights

    texts = {name: list(parts) for name, parts in TEXTS.items()}
    texts["yaml"] = [directories.MLMODEL.encode(), directories.KITFILE.encode()]
    texts["jinja"].append(weights.CHATML.encode())
    texts["stablehlo"] = [
        data
        for case in _formats.samples("stablehlo")
        for data in case.files.values()
        if not data.startswith(b"ML\xefR")
    ]
    code = (b"class Net(Module):\n  __parameters__ = [\"w\", ]\n  w : Tensor\n  def forward(self: __torch__.Net,\n    x: Tensor) -> Tensor:\n"
            b"    _0 = torch.add(x, self.w, alpha=1)\n    if True:\n      y = _0\n    else:\n      y = x\n    return torch.mul(y, 2)\n")
    texts["script"] = [code]
    return [Case(name, {"text": text}) for name, parts in texts.items() for text in parts]


def change(case, honest, chance):
    [data] = case.files.values()
    if chance.random() < 0.5:
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


def check(case):
    data = case.files["text"]
    return _look.ours(lambda: [CHECKS[case.kind](data)]) is not None


def _yaml(data):
    assert _same(yaml.parse(data, where="x"), theirs.load(data, _Loader))


class _Loader(theirs.SafeLoader):
    """One that takes dates as text, as we do."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in theirs.SafeLoader.yaml_implicit_resolvers.items()
}


def _json(data):
    value = our_json.parse(data, where="x")
    assert _same(value, json.loads(data))
    decode(value, where="x")


def _xml(data):
    root, tree = xml.parse(memoryview(data), where="x"), ET.fromstring(data)
    assert root.name == tree.tag.rpartition("}")[2], (root.name, tree.tag)


def _literal(data):
    text = data.decode()
    value = literal.parse(text, where="x")
    assert _same(value, ast.literal_eval(text.strip()))


def _jinja(data):
    text = data.decode(errors="replace")
    list(_templates.findings(text, place="x"))
    jinja.parse(text, where="x")
    jinja2.Environment(extensions=["jinja2.ext.loopcontrols", "jinja2.ext.do"]).parse(text)


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
