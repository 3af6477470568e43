"""108 by other hands: ways out of a template engine, in GGUF, in a tokenizer's configuration and in files of their own."""

from __future__ import annotations

import json
import struct

from corpus import Case, data
from corpus.weights import _entry, _text, gguf

ESCAPES = {
    "attr filter": "{{ ''|attr('__class__') }}",
    "joined name": "{{ ''|attr(['__cla','ss__']|join) }}",
    "unicode escapes": "{{ ''['\\u005f\\u005fclass\\u005f\\u005f'] }}",
    "hex escapes": "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}",
    "octal escapes": "{{ ''['\\137\\137class\\137\\137'] }}",
    "adjacent texts": "{{ ''['__cl' 'ass__'] }}",
    "concatenation": "{% set a = '__cl' ~ 'ass__' %}{{ messages[a] }}",
    "map of an attribute": "{{ messages|map(attribute='__class__')|list }}",
    "map of a filter": "{{ messages|map('attr', '__class__')|list }}",
    "map of a computed filter": "{% set f = 'at' ~ 'tr' %}{{ messages|map(f, 'content')|list }}",
    "selectattr": "{{ messages|selectattr('__class__.__mro__')|list }}",
    "groupby": "{{ messages|groupby('__class__') }}",
    "sort by an attribute": "{{ messages|sort(attribute='__init__.__globals__') }}",
    "cycler": "{{ cycler.__init__.__globals__.os.popen('id') }}",
    "lipsum": "{{ lipsum['__globals__'] }}",
    "joiner": "{{ joiner }}",
    "namespace": "{{ namespace.__init__ }}",
    "namespace keeps a name": "{% set n = namespace(a='__class__') %}{{ messages[n.a] }}",
    "format string": "{{ '{0.__class__}'.format(messages) }}",
    "format string by item": "{{ '{0[__class__]}'.format(messages) }}",
    "format from a name": "{% set p = '{0.a}' %}{{ p.format(messages) }}",
    "format_map": "{{ '{a.b}'.format_map(messages[0]) }}",
    "self": "{{ self._TemplateReference__context }}",
    "caller globals": "{{ raise_exception.__globals__ }}",
    "wide letters": "{{ messages.\uff3f\uff3fclass\uff3f\uff3f }}",
    "replace": "{{ messages['_x_class_x_'|replace('x', '')] }}",
    "reverse": "{{ messages['__ssalc__'|reverse] }}",
    "slice of a text": "{{ messages['a__class__'[1:]] }}",
    "percent": "{{ messages['%s%s' % ('__cl', 'ass__')] }}",
    "macro gives a name": "{% macro m() %}__class__{% endmacro %}{{ messages[m()] }}",
    "set block gives a name": "{% set k %}__cla{{ 'ss__' }}{% endset %}{{ messages[k] }}",
    "filter block": "{% filter attr('__class__') %}x{% endfilter %}",
    "loop over letters": "{% for k in ['__class__'] %}{{ messages[k] }}{% endfor %}",
    "with gives a name": "{% with k = ['__', 'class', '__']|join %}{{ messages[k] }}{% endwith %}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'x' as y %}{{ y }}",
    "extends": "{% extends '/etc/passwd' %}",
    "whitespace control": "{%- if true -%}{{- ''.__class__ -}}{%- endif -%}",
    "after a comment": "{# {% raw %} #}{{ ''.__class__ }}{# {% endraw %} #}",
    "raw that ends early": "{% raw %}{% endraw %}{{ ''.__class__ }}{% raw %}{% endraw %}",
    "dict key": "{% set d = {'k': '__class__'} %}{{ messages[d.k] }}",
    "dict function": "{% set d = dict(k='__class__') %}{{ messages[d['k']] }}",
    "spread": "{{ '{0.x}'.format(*messages) }}",
    "request": "{{ request.application.__globals__ }}",
    "tests": "{{ messages is sameas(''.__class__) }}",
    "inline condition": "{{ messages[('__class__' if true else 'a')] }}",
    "nested brackets": "{{ (((''))).__class__ }}",
    "decoded": "{{ messages['X19jbGFzc19f'|from_json] }}",
    "urlencode back": "{{ messages['__class__'|urlencode] }}",
    "batch": "{{ messages[('__class__x'|batch(9)|first)|join] }}",
    "first of a list": "{{ messages[['__class__']|first] }}",
    "default": "{{ messages[none|default('__class__')] }}",
    "xmlattr": "{{ {'a': ''.__class__}|xmlattr }}",
    "call block": "{% call(x) messages.__class__() %}{% endcall %}",
    "trans": "{% trans a=''.__class__ %}{{ a }}{% endtrans %}",
    "loop attribute": "{% for m in messages %}{{ loop.__class__ }}{% endfor %}",
    "strftime": "{{ strftime_now.__globals__ }}",
    "tojson of a class": "{{ (messages|attr('__class__'))|tojson }}",
    "last of split": "{{ messages['a,__class__'.split(',')[1]] }}",
    "format filter": "{{ messages['%s%s'|format('__cl', 'ass__')] }}",
    "case changed": "{{ messages['__CLASS__'|lower] }}",
    "title of parts": "{{ messages[('_' * 2) + 'class' + ('_' * 2)] }}",
    "replace of letters": "{{ messages['uuclassuu'.replace('u', '_')] }}",
}


def _gguf(template: str, key: str = "tokenizer.chat_template") -> bytes:
    return gguf(0, 1, _entry(key, 8, struct.pack("<Q", len(template.encode())) + template.encode())) + bytes(32)


EVIL = ESCAPES["cycler"]


def _folder(files: dict[str, object]):
    def make(folder, marker):
        path = folder / "model"
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return make


_BERT = {"model_type": "bert", "architectures": ["BertModel"]}
HOSTILE = (
    *(Case(f"108{chr(98 + index // 26)}{chr(97 + index % 26)}", f"template by {name}", data(_gguf(text), "m.gguf")) for index, (name, text) in enumerate(ESCAPES.items())),
    Case("108y", "second template", data(_gguf(EVIL, "tokenizer.chat_template.tool_use"), "m.gguf")),
    Case("108za", "template of a tokenizer alone", data(json.dumps({"chat_template": EVIL}).encode(), "tokenizer_config.json")),
    Case("108zb", "template in a file alone", data(EVIL.encode(), "chat_template.jinja")),
    Case("108zc", "template of a tokenizer's folder", _folder({"tokenizer_config.json": {"chat_template": EVIL}, "vocab.txt": "a\nb\n"})),
    Case("108zd", "template in a folder below", _folder({"model_index.json": {"_diffusers_version": "0.30", "_class_name": "X"}, "tokenizer/tokenizer_config.json": {"chat_template": EVIL}, "tokenizer/vocab.txt": "a\n"})),
    Case("108ze", "template among several", _folder({"config.json": _BERT, "tokenizer_config.json": {"chat_template": [{"name": "a", "template": "x"}, {"name": "b", "template": EVIL}]}})),
    Case("108zf", "template of another name", _folder({"config.json": _BERT, "additional_chat_templates/tool.jinja": EVIL})),
    Case("108zg", "template under an escaped key", data(json.dumps({"chat_template": EVIL}).replace("chat_t", "chat\\u005ft").encode(), "tokenizer_config.json")),
    Case("108zh", "template of a processor", _folder({"config.json": _BERT, "processor_config.json": {"chat_template": EVIL}})),
    Case("108zi", "template that no key names first", data(EVIL.replace("{{", "\n {%- set x = ").replace("}}", " %}").encode(), "prompt.txt")),
)  # fmt: skip
assert _text("a")
