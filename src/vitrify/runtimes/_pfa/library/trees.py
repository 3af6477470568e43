"""Decision trees: ``model.tree.*``.

A node is a record with the name of a field, a comparison and two branches, each another node or a score. Everything
that the types say is decided once for a call; the walk itself only compares.

Source: https://dmg.org/pfa/docs/library/#lib:model.tree, https://dmg.org/pfa/docs/tree/
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from vitrify.runtimes._pfa.library.base import Library, order
from vitrify.runtimes._pfa.types import PfaError, Type, accepts

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.runtimes._pfa.library.base import Site

    Test = Callable[[Any, Any], Any]

LIBRARY = Library()
_TEST = "T{field: enum, operator: string, value: V}"
_BRANCHES = "pass: (T | S), fail: (T | S)"
_HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_SETS = frozenset({"in", "notIn"})


def _without_null(type_: Type) -> tuple[Type, ...]:
    return tuple(one for one in (type_.parts if type_.kind == "union" else (type_,)) if one.kind != "null")


class _Field:
    """How one field of a datum is compared with a node's value.

    Attributes:
        plain: Whether Python compares them as the language does.
    """

    def __init__(self, field: Type, value: Type, site: Site) -> None:
        own, theirs = _without_null(field), _without_null(value)
        numeric = all(one.numeric for one in own) and any(one.numeric for one in theirs)
        self.compares = numeric or any(accepts(one, part) for one in theirs for part in own)
        self.contains = any(one.kind == "array" and accepts(one.item, part) for one in theirs for part in own)
        self.plain = numeric or all(one.kind in {"string", "boolean"} for one in own)
        self.numeric = numeric
        self.order = None if self.plain else order(own[0] if len(own) == 1 else field, site)


def _comparing(site: Site, code: int, *, missing: bool) -> Test:
    """Return the test of a node: true, false, or None where a value is missing and ``missing`` says to tell.

    Raises:
        PfaError: ``code`` for an operator that there is not, the next for a value of the wrong type.
    """
    value = site.types.fields[site.params[-1].name if site.params[-1].kind == "record" else site.params[1].name][
        "value"
    ]
    known = {name: _Field(type_, value, site) for name, type_ in site.types.fields[site.params[0].name].items()}

    def test(datum: Any, node: Any) -> bool | None:
        name, kind, wanted = node["operator"], known.get(node["field"]), node["value"]
        if name in {"alwaysTrue", "alwaysFalse"}:
            return bool(name == "alwaysTrue")
        if kind is None:
            msg = f"no field {node['field']!r}"
            raise PfaError(msg, code + 1)
        given = datum[node["field"]]
        if not missing and name in {"isMissing", "notMissing"}:
            return bool((given is None) is (name == "isMissing"))
        if name not in _HOLDS and name not in _SETS:
            msg = "invalid comparison operator"
            raise PfaError(msg, code)
        if given is None and missing:
            return None
        return _compared(kind, name, given, wanted, code)

    return test


def _compared(kind: _Field, name: str, given: Any, wanted: Any, code: int) -> bool:
    if name in _SETS:
        if not kind.contains or not isinstance(wanted, list):
            msg = "bad value type"
            raise PfaError(msg, code + 1)
        return (given in wanted and given == given) is (name == "in")  # noqa: PLR0124 (NaN is in nothing)
    if not kind.compares or given is None or (kind.numeric and not isinstance(wanted, (int, float))):
        msg = "bad value type"
        raise PfaError(msg, code + 1)
    if kind.order is not None:
        return _HOLDS[name](kind.order(given, wanted), 0)
    return _HOLDS[name](given, wanted)


LIBRARY.built("model.tree.simpleTest", f"D{{}}, {_TEST} -> boolean")(
    lambda site: _comparing(site, 32000, missing=False)
)
LIBRARY.built("model.tree.missingTest", f"D{{}}, {_TEST} -> (null | boolean)")(
    lambda site: _comparing(site, 32010, missing=True)
)


@LIBRARY.plain("model.tree.compoundTest", "D{}, string, [T{}], <D, T -> boolean> -> boolean")
def _compound(datum: Any, name: str, comparisons: list[Any], test: Test) -> bool:
    answers = (bool(test(datum, one)) for one in comparisons)
    if name == "and":
        return all(answers)
    if name == "or":
        return any(answers)
    if name == "xor":
        return sum(answers) % 2 == 1
    msg = "unrecognized logical operator"
    raise PfaError(msg, 32020)


@LIBRARY.plain("model.tree.surrogateTest", "D{}, [T{}], <D, T -> (null | boolean)> -> boolean")
def _surrogate(datum: Any, comparisons: list[Any], test: Test) -> bool:
    for one in comparisons:
        if (answer := test(datum, one)) is not None:
            return bool(answer)
    msg = "no successful surrogate"
    raise PfaError(msg, 32030)


def _is_node(site: Site) -> Callable[[Any], bool]:
    """Return whether a branch is another node; a score that is a record is told by its fields."""
    fields = site.types.fields[site.params[1].name].keys()
    if site.result.kind not in {"record", "union", "map"}:
        return lambda branch: isinstance(branch, dict)
    return lambda branch: isinstance(branch, dict) and branch.keys() == fields


def _walk(site: Site, test: Test | None) -> Callable[..., Any]:
    inner, spend = _is_node(site), site.meter.spend

    def call(datum: Any, node: Any, given: Test | None = None) -> Any:
        goes = test or given
        assert goes is not None
        while True:
            spend()
            answer = goes(datum, node)
            branch = node["missing" if answer is None else "pass" if answer else "fail"]
            if not inner(branch):
                return branch
            node = branch

    return call


LIBRARY.built("model.tree.simpleWalk", f"D{{}}, T{{{_BRANCHES}}}, <D, T -> boolean> -> S")(
    lambda site: _walk(site, None)
)
LIBRARY.built("model.tree.missingWalk", f"D{{}}, T{{{_BRANCHES}, missing: (T | S)}}, <D, T -> (null | boolean)> -> S")(
    lambda site: _walk(site, None)
)


@LIBRARY.built("model.tree.simpleTree", f"D{{}}, {_TEST[:-1]}, {_BRANCHES}}} -> S")
def _tree(site: Site) -> Callable[..., Any]:
    return _fast(site) or _walk(site, _comparing(site, 32060, missing=False))


def _fast(site: Site) -> Callable[..., Any] | None:
    """Return the walk for numbers and simple scores, as nearly all are: a tree is prepared when it is first met."""
    value = site.types.fields[site.params[1].name]["value"]
    fields = site.types.fields[site.params[0].name]
    if not value.numeric or not all(one.numeric for one in fields.values()):
        return None
    inner, spend = _is_node(site), site.meter.spend
    ready: dict[int, tuple[Any, Any]] = {}

    def prepared(root: Any) -> Any:
        """Return a tree as nested tuples: field, comparison, value, pass, fail; a score stands in a list."""
        done: dict[int, Any] = {}
        stack = [root]
        while stack:
            node = stack[-1]
            below = [node[side] for side in ("pass", "fail") if inner(node[side]) and id(node[side]) not in done]
            if below:
                stack += below
                continue
            stack.pop()
            spend()
            sides = (done[id(one)] if inner(one) else [one] for one in (node["pass"], node["fail"]))
            done[id(node)] = (node["field"], _operator(node["operator"]), node["value"], *sides)
        return done[id(root)]

    def call(datum: Any, root: Any) -> Any:
        key = id(root)
        if key not in ready:
            if len(ready) >= _MOST_READY:
                ready.clear()
            ready[key] = (root, prepared(root))  # the root is kept: its number stays its own
        node, steps = ready[key][1], 0
        while type(node) is tuple:
            field, holds, wanted, yes, no = node
            node = yes if holds(datum[field], wanted) else no
            steps += 1
        spend(steps)
        return node[0]

    return call


_MOST_READY = 10_000


def _operator(name: str) -> Callable[[Any, Any], bool]:
    if name in _HOLDS:
        return _HOLDS[name]
    if name == "alwaysTrue":
        return lambda _given, _wanted: True
    if name in {"alwaysFalse", "isMissing"}:
        return lambda _given, _wanted: False
    if name == "notMissing":
        return lambda _given, _wanted: True
    code = 32061 if name in _SETS else 32060

    def refuse(_given: Any, _wanted: Any) -> bool:
        msg = "bad value type" if name in _SETS else "invalid comparison operator"
        raise PfaError(msg, code)

    return refuse
