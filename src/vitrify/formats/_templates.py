"""What a chat template could do, decided without rendering it.

A template that came with a model is a program: an engine that is not sandboxed runs ``x.__class__`` and all that
follows from it, and a sandbox has had its holes. Honest templates do little: they loop over messages, read their
keys, put text together. So what they do is allowed and everything else is found: an attribute that leads out of the
data (whether written down, put together from pieces or handed to ``attr``), a name, function, filter or statement
that no chat template needs.

A key that is *computed* (``x[key]``) is an attribute too, for Jinja. It is allowed as long as no value that could
flow into it was put together from text inside the template: data alone has no names that lead out.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.core.report import Finding
from vitrify.reading.jinja import Expression, Statement, parse

if TYPE_CHECKING:
    from collections.abc import Iterator


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STATEMENTS = _words(
    """
    autoescape break call continue do elif else endautoescape endcall endfilter endfor endgeneration endif
    endmacro endset endwith filter for generation if macro output set with
    """
)
_FUNCTIONS = _words("caller dict loop namespace raise_exception range strftime_now")
_FORBIDDEN = _words(
    """
    app application config context cycler environment g get_flashed_messages joiner lipsum request self session
    super url_for
    """
)
_METHODS = _words(
    """
    append capitalize center copy count endswith extend find format get index insert isalnum isalpha isascii
    isdecimal isdigit isidentifier islower isnumeric isoformat isprintable isspace istitle isupper items join
    keys ljust lower lstrip partition pop remove removeprefix removesuffix replace reverse rfind rindex rjust
    rpartition rsplit rstrip setdefault sort split splitlines startswith strftime strip swapcase title update
    upper values zfill
    """
)
_FILTERS = _words(
    """
    abs batch capitalize center count d default dictsort e escape first float forceescape format from_json
    groupby indent int items join last length list lower map max min pprint reject rejectattr replace reverse
    round safe select selectattr slice sort split string striptags sum title tojson trim truncate unique upper
    urlencode wordcount wordwrap
    """
)
_NUMBERS = _words("abs count float int length round wordcount")
"""Filters whose value is a number, whatever goes in."""
_BUILDERS = _words(
    """
    capitalize center e escape forceescape format from_json indent join pprint replace safe string striptags
    title tojson truncate urlencode wordwrap
    """
)
"""Filters and methods that put text together, or change it."""
_BUILDING = _BUILDERS | _words("isoformat ljust rjust strftime swapcase zfill")
_FILLING = _words("append extend insert setdefault update")
_BY_ATTRIBUTE = {"selectattr", "rejectattr", "groupby"}
_LEADING_OUT = _words(
    """
    ag_code ag_frame co_code cr_code cr_frame environment eval_ctx f_back f_builtins f_code f_globals f_locals
    format_map from_string func_closure func_code func_globals gi_code gi_frame im_class im_func im_self mro
    tb_frame tb_next
    """
)
_STEPS = 40
"""Names that a value may go through, one after another."""
_DUNDER = re.compile(r"__\w+__")
_FIELD = re.compile(r"\{[^{}.\[_]*+[.\[_][^{}]*+\}")
"""A replacement field of ``format`` that looks into its value."""

Flow = tuple[frozenset[str], Expression]


def findings(text: str, *, place: str) -> Iterator[Finding]:
    """Yield what in a template no honest one needs, and what could not be judged.

    Args:
        text: The template.
        place: Where it is from; the line is added.
    """
    try:
        statements = parse(text, where=place)
    except MalformedError as error:
        rule = "limit" if isinstance(error, LimitExceededError) else "template"
        yield Finding(
            place=place, message=f"a template that cannot be judged: {error.message}", rule=rule, verdict="not checked"
        )
        return
    judge = _Judge(statements)
    seen = set()
    for line, subject, what in judge.problems():
        if (line, subject) not in seen:
            seen.add((line, subject))
            yield Finding(
                place=f"{place}, line {line}",
                message=f"the template {what}: rendered outside a sandbox, that can run any code",
                rule="template",
                subject=subject,
                remedy="load the model without its template, or use one from whoever trained it",
            )


class _Judge:
    """One template: which names it makes, which of them may hold text that it put together, and its problems."""

    def __init__(self, statements: tuple[Statement, ...]) -> None:
        self._statements = statements
        self._macros = {one.targets[0].value for one in statements if one.tag == "macro"}
        self._names = {_root(target) for one in statements for target in one.targets}
        self._built: set[str] = set()
        flows = [*self._flows()]
        self._spread(flows)
        self._macros |= self._holders(flows)

    def _flows(self) -> Iterator[Flow]:
        """Yield which names may get which values: assignments, loops, arguments, what is put into a list."""
        macros = {
            one.targets[0].value: [_key(target) for target in one.targets[1:]]
            for one in self._statements
            if one.tag == "macro"
        }
        handed = {name: named for name, named in macros.items() if name in self._handed_on()}
        for one in self._statements:
            for value in one.expressions:
                if one.targets:
                    yield frozenset(map(_key, one.targets)) | ({"loop"} if one.tag == "for" else set()), value
                for call in (part for part in value.walk() if part.kind == "call"):
                    yield from self._arguments(call, macros, handed)

    def _handed_on(self) -> set[str]:
        """Return the names that are used as values: a macro among them may be called by another name."""
        values = [value for one in self._statements for value in one.expressions]
        inner = [
            part
            for value in values
            for whole in value.walk()
            for place, part in enumerate(whole.parts)
            if place or whole.kind != "call"
        ]
        return {str(part.value) for part in [*values, *inner] if part.kind == "name"}

    @staticmethod
    def _arguments(call: Expression, macros: dict[str, list[str]], handed: dict[str, list[str]]) -> Iterator[Flow]:
        callee, *arguments = call.parts
        if callee.kind == "attribute" and callee.value in _FILLING:
            names = frozenset({_key(callee.parts[0]), _root(callee.parts[0])})
            yield from ((names, argument) for argument in arguments)
        elif callee.kind == "name" and callee.value in macros:
            named = macros[callee.value]
            for place, argument in enumerate(arguments):
                is_keyword = argument.kind == "keyword" and argument.value in named
                one = argument.value if is_keyword else named[place] if place < len(named) else "varargs"
                # A list that is spread out fills any of them.
                yield frozenset(named if argument.kind == "spread" else {one, "varargs", "kwargs"}), argument
        elif callee.kind in {"name", "item"}:
            every = frozenset({"varargs", "kwargs"}.union(*handed.values()))
            for argument in arguments:
                # A namespace's attributes are kept by their names; a macro may have been given another name.
                own = {f".{argument.value}"} if callee.value == "namespace" and argument.kind == "keyword" else every
                yield frozenset(own), argument

    def _spread(self, flows: list[Flow]) -> None:
        """Find the names that text of the template's own making may reach, however many steps it takes."""
        for _ in range(_STEPS):
            open_flows = [flow for flow in flows if not flow[0] <= self._built]
            reached = {name for names, value in open_flows if self._is_built(value) for name in names}
            if not reached:
                return
            self._built |= reached
        # No honest template hands text on through so many names: all of them may hold it.
        self._built.update(*(names for names, _ in flows))

    def _holders(self, flows: list[Flow]) -> set[str]:
        """Return the names that hold macros, or lists of them, and nothing else: they may be called."""

        def holds(value: Expression) -> bool:
            if value.kind == "name":
                return value.value in self._macros or value.value in found
            return (value.kind, value.value) in {("list", None), ("binary", "+")} and all(map(holds, value.parts))

        found = {name for names, _ in flows for name in names if not name.startswith(".")}
        for _ in range(_STEPS):
            wrong = {
                name for names, value in flows if not names.isdisjoint(found) and not holds(value) for name in names
            }
            if not found & wrong:
                return found
            found -= wrong
        return set()

    def _is_built(self, one: Expression) -> bool:
        """Say whether a value may be, or hold, text that the template put together."""
        if one.kind in {"test", "unary"} or _is_number(one):
            return False
        own = {
            "constant": isinstance(one.value, str) and "__" in one.value,
            "keyword": "__" in str(one.value),
            "name": one.value in self._built,
            "attribute": f".{one.value}" in self._built,
        }
        if one.kind in {"binary", "filter", "call"}:
            return self._is_made(one)
        return own.get(one.kind, False) or any(map(self._is_built, one.parts))

    def _is_made(self, one: Expression) -> bool:
        if one.kind == "call":
            return self._call_is_built(one)
        if one.kind == "filter":
            applied = one.parts[1].value if one.value == "map" and len(one.parts) > 1 else one.value
            return applied in _BUILDERS or any(map(self._is_built, one.parts))
        if one.value in {"and", "or"}:
            return any(map(self._is_built, one.parts))
        # What is left compares, or computes a number: Python adds no text to one, and multiplies no two texts.
        return one.value == "~" or (one.value in {"+", "*", "%"} and not _is_arithmetic(one))

    def _call_is_built(self, one: Expression) -> bool:
        callee = one.parts[0]
        if callee.kind == "name":
            # What a macro gives is the text inside it.
            return callee.value not in {"range", "namespace", "dict"} or any(map(self._is_built, one.parts[1:]))
        if callee.kind != "attribute" or callee.value in _BUILDING:
            return True
        return any(map(self._is_built, one.parts))

    def problems(self) -> Iterator[tuple[int, str, str]]:
        """Yield line, subject and what is wrong."""
        for one in self._statements:
            if one.tag not in _STATEMENTS:
                yield one.line, one.tag, f"has the statement {one.tag!r}, which no chat template needs"
            for value in one.expressions:
                for part in value.walk():
                    for subject, what in self._problems_of(part):
                        yield part.line, subject, what

    def _problems_of(self, one: Expression) -> Iterator[tuple[str, str]]:
        match one.kind:
            case "constant" if isinstance(one.value, str) and _DUNDER.fullmatch(one.value):
                yield one.value, f"speaks of {one.value!r}"
            case "name" if one.value in _FORBIDDEN and one.value not in self._names:
                yield one.value, f"reaches for {one.value!r}, a door of the template engine"
            case "attribute" if _leads_out(one.value):
                yield one.value, f"takes the attribute {one.value!r}, which leads out of the data"
            case "item":
                yield from self._key_problems(one.parts[1], "takes")
            case "call":
                yield from self._call_problems(one)
            case "filter":
                yield from self._filter_problems(one)

    def _key_problems(self, key: Expression, verb: str) -> Iterator[tuple[str, str]]:
        texts = [part.value for part in key.walk() if part.kind == "constant" and isinstance(part.value, str)]
        if key.kind == "constant" and texts and _leads_out(texts[0]):
            yield texts[0], f"{verb} {texts[0]!r}, which leads out of the data"
        elif key.kind != "constant" and self._is_built(key):
            shown = "".join(texts)[:80] or "a key"
            yield shown, f"{verb} an attribute whose name it puts together ({shown!r})"

    def _call_problems(self, one: Expression) -> Iterator[tuple[str, str]]:
        callee = one.parts[0]
        if callee.kind == "name":
            if callee.value not in _FUNCTIONS | self._macros | _FORBIDDEN:
                yield callee.value, f"calls {callee.value!r}, which no chat template has"
        elif callee.kind == "item" and callee.parts[0].kind == "name" and callee.parts[0].value in self._macros:
            return  # one of a list of macros
        elif callee.kind != "attribute":
            yield callee.kind, "calls what it looked up by a key or got from another call"
        elif callee.value not in _METHODS:
            yield callee.value, f"calls the method {callee.value!r}, which no chat template needs"
        elif callee.value == "format":
            pattern = callee.parts[0]
            if pattern.kind != "constant" or (isinstance(pattern.value, str) and _FIELD.search(pattern.value)):
                yield "format", "formats text by a pattern that may look into values"

    def _filter_problems(self, one: Expression) -> Iterator[tuple[str, str]]:
        name, arguments = one.value, one.parts[1:]
        if name not in _FILTERS:
            yield name, f"uses the filter {name!r}, which no chat template needs"
            return
        keys = [part.parts[0] for part in arguments if part.kind == "keyword" and part.value == "attribute"]
        first = next((part for part in arguments if part.kind != "keyword"), None)
        if name in _BY_ATTRIBUTE and first is not None:
            keys.append(first)
        for key in keys:
            if key.kind != "constant":
                yield name, f"uses the filter {name!r} with an attribute that it computes"
            elif isinstance(key.value, str) and any(map(_leads_out, key.value.split("."))):
                yield key.value, f"uses the filter {name!r} with {key.value!r}, which leads out of the data"
        if name == "map" and first is not None and not (first.kind == "constant" and first.value in _FILTERS):
            yield str(first.value), "applies a filter that no chat template needs, or one whose name it computes"


def _root(one: Expression) -> str:
    while one.kind != "name" and one.parts:
        one = one.parts[0]
    return str(one.value)


def _key(one: Expression) -> str:
    """Return what a value is kept under: a name, or for an attribute of a namespace the attribute."""
    return f".{one.value}" if one.kind == "attribute" else _root(one)


def _leads_out(name: str) -> bool:
    plain = unicodedata.normalize("NFKC", name)
    return plain.startswith("_") or "__" in plain or plain in _LEADING_OUT


def _is_arithmetic(one: Expression) -> bool:
    numbers = [_is_number(part) for part in one.parts]
    return all(numbers) if one.value == "*" else numbers[0] or (one.value == "+" and any(numbers))


def _is_number(one: Expression) -> bool:
    match one.kind:
        case "constant":
            return not isinstance(one.value, str) and one.value is not None
        case "filter":
            return one.value in _NUMBERS
        case "binary":
            return one.value in {"-", "/", "//", "**"} or (one.value in {"+", "*"} and any(map(_is_number, one.parts)))
        case "unary":
            return bool(one.value == "-")
        case "attribute":
            return one.value in {"index", "index0", "revindex", "revindex0", "length", "depth"} and _is_loop(
                one.parts[0]
            )
        case _:
            return False


def _is_loop(one: Expression) -> bool:
    return one.kind == "name" and one.value == "loop"
