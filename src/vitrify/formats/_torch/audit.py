"""Read a serialised PyTorch program as data, before PyTorch does: what in it could run code?

PyTorch's own reader trusts the file. It looks up call targets by walking attributes from ``torch`` (``torch.os.system``
is one), evaluates symbolic expressions with SymPy's ``sympify`` (which is ``eval``), compiles argument names into
Python source, and imports enum classes named in tree specifications. So every such text is matched with the little that
a program needs, and the rest (guards, metadata) is dropped.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any, NoReturn

from vitrify.core.errors import MalformedError
from vitrify.core.nesting import shallow

_IDENTIFIER = re.compile(r"(?!\d)\w{1,500}", re.ASCII)
_ATTRIBUTE = re.compile(r"[^\"'\\\x00-\x1f\x7f]{1,2000}")
_SYMBOL = re.compile(r"[a-z]{1,4}\d{1,9}")
_LITERAL = re.compile(rf"{_SYMBOL.pattern}|-?\d{{1,40}}(\.\d{{1,40}})?(e[+-]?\d{{1,3}})?")
_OPERATOR = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.\w+)?", re.ASCII)
_SYMBOLIC = re.compile(
    r"_operator\.(eq|ne|le|ge|lt|gt|neg|pos|mul|add|sub|floordiv|truediv|mod|pow|and_|or_|lshift|rshift|getitem)"
    r"|math\.trunc|torch\.sym_(not|int|float|ite|max|min|sqrt)"
)
_NAMESPACES = {"aten", "prims"}
_TOUCHES_FILES = {"save", "from_file"}
_CONTROL_FLOW = {
    *("cond", "while_loop", "map_impl", "scan", "associative_scan", "invoke_subgraph"),
    *("wrap_with_set_grad_enabled", "wrap_with_autocast", "flex_attention"),
}
_FUNCTIONS = {
    *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "Mod", "CleanDiv", "CeilToInt", "FloorToInt", "CeilDiv"),
    *(
        "LShift",
        "RShift",
        "PowByNatural",
        "FloatPow",
        "FloatTrueDiv",
        "IntTrueDiv",
        "IsNonOverlappingAndDenseIndicator",
    ),
    *("TruncToFloat", "TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat", "Identity", "Min", "Max", "Eq", "Ne"),
    *("Lt", "Le", "Gt", "Ge", "And", "Or", "Not", "Equality", "Unequality", "StrictLessThan", "LessThan"),
    *("StrictGreaterThan", "GreaterThan", "Symbol", "Integer", "Rational", "Float", "Add", "Mul", "Pow", "Abs"),
    *("true", "false", "oo", "int_oo"),
}
_MAX_EXPRESSION = 5000
_ARITHMETIC = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop, ast.Load)
_MAX_EXPONENT = 64
_POWERS = {"Pow", "PowByNatural", "FloatPow", "LShift", "RShift"}
_SPEC_TYPES = {None, "builtins.tuple", "builtins.list", "builtins.dict"}
_NAME_KEYS = {"name", "as_name"}
_ATTRIBUTE_KEYS = {"parameter_name", "buffer_name", "tensor_constant_name"}
_REFUSED_KEYS = {"as_custom_obj", "as_operator", "custom_obj", "token"}
_SPEC_KEYS = {"in_spec", "out_spec"}


def audit(text: bytes, *, where: str) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the program without what prediction does not need, and the operators that are not PyTorch's own.

    Raises:
        MalformedError: It is no serialised program, or a text in it is more than the thing it should be.
    """
    try:
        program = json.loads(shallow(text))
        found: set[str] = set()
        _walk(program, found)
        for name in program["range_constraints"]:
            _match("symbol", _SYMBOL, name)
        if program["graph_module"]["treespec_namedtuple_fields"]:
            _refuse("named tuple", program["graph_module"]["treespec_namedtuple_fields"])
        program["guards_code"] = []
        program["graph_module"]["metadata"] = {}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, SyntaxError, MemoryError) as error:
        msg = f"{where}: not a PyTorch program that can be read safely ({type(error).__name__}: {error})"
        raise MalformedError(msg, remedy="save the module again from its source") from error
    return program, frozenset(found)


def _walk(value: Any, found: set[str]) -> None:
    if isinstance(value, list):
        for item in value:
            _walk(item, found)
    elif isinstance(value, dict):
        if "target" in value and "inputs" in value:
            value["metadata"] = {}
        for key, item in value.items():
            _check(key, item, found)
            _walk(item, found)


def _check(key: str, item: Any, found: set[str]) -> None:
    if key in _NAME_KEYS and item not in {"", None}:
        _match("name", _IDENTIFIER, item)
    elif key in _ATTRIBUTE_KEYS:
        _match("attribute", _ATTRIBUTE, item)
    elif key == "target":
        found |= _operator(item)
    elif key == "expr_str":
        _expression(item)
    elif key in _SPEC_KEYS:
        _specification(item)
    elif key == "forward_arg_names":
        for name in item or ():
            _match("argument", _IDENTIFIER, name)
    elif key in _REFUSED_KEYS:
        _refuse("value", key)


def _operator(target: str) -> set[str]:
    """Return the target if it is an operator of somebody else; PyTorch's own need no permission."""
    if _SYMBOLIC.fullmatch(target):
        return set()
    namespace, name = _match("operator", _OPERATOR, target).groups()
    own = (namespace in _NAMESPACES and name not in _TOUCHES_FILES) or (
        namespace == "higher_order" and name in _CONTROL_FLOW
    )
    return set() if own else {target}


def _expression(source: str) -> None:
    """Accept arithmetic over symbols, as SymPy writes it: ``Mul(Integer(2), Symbol('s0', integer=True))``."""
    if len(source) > _MAX_EXPRESSION:
        _refuse("expression", source[:100])
    for node in ast.walk(ast.parse(source, mode="eval")):
        match node:
            case ast.Name(id=name):
                known = name in _FUNCTIONS or bool(_SYMBOL.fullmatch(name))
            case ast.Constant(value=value):
                text = value if isinstance(value, str) else "0"
                known = isinstance(value, bool | int | float | str) and bool(_LITERAL.fullmatch(text))
            case ast.keyword(value=value):
                known = isinstance(value, ast.Constant) and isinstance(value.value, bool)
            case ast.Call(func=ast.Name(id=name), args=arguments):
                known = name not in _POWERS or _small(arguments[-1])
            case _:
                known = isinstance(node, _ARITHMETIC) and not isinstance(node, ast.Pow)
        if not known:
            _refuse("expression", source)


def _small(exponent: ast.expr) -> bool:
    """Say whether this is a number that cannot make a power endless."""
    match exponent:
        case ast.Constant(value=int() | float() as power) | ast.Call(args=[ast.Constant(value=int() as power)]):
            return abs(power) <= _MAX_EXPONENT
    return False


def _specification(text: str) -> None:
    """Accept trees of tuples, lists and dicts with text keys."""
    version, tree = json.loads(shallow(text.encode()))
    if version != 1:
        _refuse("tree specification", text)
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        context = json.loads(shallow(node["context"].encode())) if node["context"] is not None else None
        named = isinstance(context, list) and all(isinstance(key, str) for key in context)
        if node["type"] not in _SPEC_TYPES or not (context is None or named):
            _refuse("tree specification", text)
        waiting.extend(node["children_spec"])


def _match(what: str, pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        _refuse(what, text)
    return found


def _refuse(what: str, text: Any) -> NoReturn:
    msg = f"not a plain {what}: {text!r}"
    raise ValueError(msg)
