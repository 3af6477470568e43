"""A module from text, in MLIR's generic form or StableHLO's own.

Specification: https://mlir.llvm.org/docs/LangRef/ and https://openxla.org/stablehlo/spec. The text is split as MLIR
does it, so that no comment, string or line break hides an operation. What a dialect prints between the name of an
operation and the next one is not understood, but searched for values, tensor types, symbols, attributes and regions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vitrify.formats._stablehlo.module import Body, Function, Module, Op, Port, Type, is_custom_call
from vitrify.formats._stablehlo.tokens import Token, Tokens
from vitrify.formats.text import encoding
from vitrify.reading.malformed import exceed, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

OPERATIONS = 50_000
"""Operations that are read of any text, and one more for each 128 bytes of it."""
DEEPEST = 64
_OPEN, _CLOSE = frozenset("([<"), frozenset(")]>")
_BARE = {"return": "func.return", "call": "func.call", "func": "func.func", "module": "builtin.module"}
"""Operations whose dialect may be left out."""
_KEYS = frozenset({"call_target_name", "sym_name", "sym_visibility", "callee"})
_TENSOR = re.compile(rb"tensor<((?:(?:[0-9]{1,18}|\?)x){0,64}|\*x)([\w.]+(?:<[\w.]+>)?|![^<>,]+)", re.ASCII)
_MOST_RESULTS = 64


def read(view: memoryview, *, where: str) -> Module:
    """Return the module that a text holds.

    Raises:
        MalformedError: It is cut off, or has no operation.
        LimitExceededError: It is deeper or has more in it than is read.
    """
    if encoding(view) is None:
        refuse(where, "is no text of MLIR: it has bytes that no text has")
    return _Parser(view, where).module()


class _Parser:
    def __init__(self, view: memoryview, where: str) -> None:
        self.view, self.where = view, where
        self.tokens = Tokens(view, where)
        self.left = OPERATIONS + len(view) // 128
        self.calls = 0
        self.functions: list[Function] = []
        self.returned: list[Type] = []

    def module(self) -> Module:
        top = Body()
        while self.tokens.peek().kind != "end":
            self.block(top, 0)
            if self.tokens.peek().kind != "end":
                self.tokens.next()
        tops = top.operations
        if not tops and not self.functions:
            refuse(self.where, "is no text of MLIR: nothing in it is an operation")
        name = ""
        if len(tops) == 1 and tops[0].name == "builtin.module":
            name, tops = tops[0].call, [one for region in tops[0].regions for one in region.operations]
        others = [one for one in tops if one.name != "func.func"]
        known = sum(is_custom_call(one.name) for one in _walk(self.functions, others))
        # A call that was not recognised as an operation is one all the same.
        others += [Op("stablehlo.custom_call", [], [], [], None)] * (self.calls > known)
        names = {one.name.split(".")[0] for one in _walk(self.functions, others)}
        return Module(name, "", "", sorted(names), self.functions, others)

    def next(self) -> Token:
        """Return the next token; count those that call out, wherever they stand."""
        token = self.tokens.next()
        if token.kind == "word" and is_custom_call(token.text) and self.tokens.peek().sign != "=":
            self.calls += 1
        if token.kind == "string" and is_custom_call(token.text) and self.tokens.peek().sign == "(":
            self.calls += 1
        return token

    def block(self, body: Body, depth: int) -> None:
        """Read operations up to the brace that closes their region, which is left."""
        if depth > DEEPEST:
            exceed(self.where, f"regions nest deeper than {DEEPEST}")
        while (token := self.tokens.peek()).kind != "end" and token.sign != "}":
            if token.kind == "label":
                self.label(body)
            elif self.starts():
                self.operation(body, depth)
            else:
                # An alias of an attribute, a location, a resource: it names nothing that runs.
                self.next()
                if token.sign == "{":
                    self.dictionary({})

    def starts(self) -> bool:
        """Say whether an operation begins here."""
        first, second = self.tokens.peek(), self.tokens.peek(1)
        if first.kind == "value":
            return self.results() > 0
        if first.kind == "string":
            return second.sign == "("
        if first.kind != "word" or (second.sign in {"=", ":"}):
            return False
        return "." in first.text or first.text in _BARE

    def results(self) -> int:
        """Return how many names of results begin here: ``%0, %1 =``; names without the sign behind them are none."""
        count = 0
        while count < _MOST_RESULTS and self.tokens.peek(2 * count).kind == "value":
            sign = self.tokens.peek(2 * count + 1)
            count += 1
            if sign.sign != ",":
                return count if sign.sign == "=" else 0
        return 0

    def label(self, body: Body) -> None:
        """Read a block's name and its arguments."""
        self.next()
        values: list[str] = []
        types: list[Type] = []
        if self.tokens.peek().sign == "(":
            self.next()
            inside = 1
            while inside and self.tokens.peek().kind != "end":
                token = self.next()
                inside += self.bracket(token)
                if token.kind == "value":
                    values.append(token.text)
                elif token.kind == "word" and token.text == "tensor":
                    types.append(self.tensor(token))
        if not body.arguments and not body.operations:
            body.arguments = _ports(values, types)

    def operation(self, body: Body, depth: int) -> None:
        self.left -= 1
        if self.left < 0:
            exceed(self.where, "has more operations than a text of its size needs")
        results: list[str] = []
        for _ in range(self.results()):
            token = self.next()
            name, _, count = token.text.partition(":")
            results += [name] if not count else [f"{name}#{place}" for place in range(min(int(count[:4]), 1024))]
            self.next()
        if self.tokens.peek().kind not in {"word", "string"}:
            return
        name = self.next().text
        name = _BARE.get(name, name)
        rest = _Rest(self, depth)
        rest.read()
        target: str | None = ""
        if is_custom_call(name):
            told = {one for one in (rest.symbol, rest.keys.get("call_target_name")) if one is not None}
            target = told.pop() if len(told) == 1 else None
        if name == "func.func":
            self.functions.append(rest.as_function())
            return
        if name == "func.return":
            self.returned = rest.inputs or rest.types
        call = rest.symbol or rest.keys.get("callee") or rest.keys.get("sym_name") or ""
        op = Op(name, _ports(results, rest.types), rest.values, rest.regions, target)
        op.call = call if name in {"func.call", "builtin.module"} else ""
        body.operations.append(op)

    def dictionary(self, keys: dict[str, str]) -> None:
        """Read attributes up to the brace that closes them; keep those whose text matters."""
        inside = 1
        while inside and self.tokens.peek().kind != "end":
            token = self.next()
            if token.kind == "mark":
                inside += (token.sign == "{") - (token.sign == "}")
            elif inside == 1 and token.text in _KEYS and self.tokens.peek().sign == "=":
                self.next()
                while self.tokens.peek().kind == "alias" or self.tokens.peek().sign == "<":
                    self.next()
                if self.tokens.peek().kind in {"string", "symbol"}:
                    found = self.next().text
                    # Two of one name: neither is to be believed.
                    keys[token.text] = found if keys.get(token.text, found) == found else "?"
        if inside:
            refuse(self.where, "is cut off: attributes are not closed")

    def tensor(self, token: Token) -> Type:
        """Return the type that begins with a token, and go behind it."""
        inside = 0
        while self.tokens.peek().kind != "end":
            last = self.next()
            inside += self.bracket(last)
            if inside <= 0:
                break
        found = _TENSOR.match(self.view[token.start : token.start + 4096])
        if found is None:
            return Type("tensor")
        sizes = found[1].decode().split("x")[:-1]
        shape = None if sizes == ["*"] else tuple(None if size == "?" else int(size) for size in sizes)
        return Type(found[2].decode(), shape)

    @staticmethod
    def bracket(token: Token) -> int:
        """Return how much deeper in round, square and pointed brackets a token leads."""
        return (token.sign in _OPEN) - (token.sign in _CLOSE)


class _Rest:
    """What follows the name of an operation, up to the next one."""

    def __init__(self, parser: _Parser, depth: int) -> None:
        self.parser, self.depth = parser, depth
        self.symbol: str | None = None
        self.visibility = ""
        self.values: list[str] = []
        self.types: list[Type] = []
        self.inputs: list[Type] = []
        self.regions: list[Body] = []
        self.keys: dict[str, str] = {}
        self.inside = 0

    def read(self) -> None:
        parser, tokens = self.parser, self.parser.tokens
        while (token := tokens.peek()).kind != "end":
            if self.inside <= 0 and (token.sign == "}" or token.kind == "label" or parser.starts()):
                return
            parser.next()
            if token.kind == "mark":
                self.mark(token)
            elif token.kind == "value":
                if tokens.peek().sign != "=":
                    self.values.append(token.text)
            elif token.kind == "symbol" and self.symbol is None:
                self.symbol = token.text
            elif token.kind == "word":
                if token.text == "tensor" and tokens.peek().sign == "<":
                    self.types.append(parser.tensor(token))
                elif token.text in {"public", "private", "nested"}:
                    self.visibility = token.text

    def mark(self, token: Token) -> None:
        self.inside += self.parser.bracket(token)
        if token.sign == "{":
            self.brace()
        elif token.sign == "->" and self.inside <= 0:
            self.inputs, self.types = self.types, []
        elif token.sign == ":" and self.inside <= 0:
            self.types = []

    def brace(self) -> None:
        """Read a region, or attributes: an operation or a block tells which."""
        parser = self.parser
        if parser.tokens.peek().kind == "label" or (parser.starts() and not self._attribute()):
            body = Body()
            self.regions.append(body)
            parser.block(body, self.depth + 1)
            if parser.tokens.peek().kind == "end":
                refuse(parser.where, "is cut off: a region is not closed")
            parser.next()
        else:
            parser.dictionary(self.keys)

    def _attribute(self) -> bool:
        """Say whether what follows a brace is an attribute without a value: ``{jax.arg, ...}``."""
        first, second = self.parser.tokens.peek(), self.parser.tokens.peek(1)
        return first.kind == "word" and second.sign in {",", "}"}

    def as_function(self) -> Function:
        """Return it as a function: its own form has the arguments in brackets, the generic one in its first block."""
        body = self.regions[0] if self.regions else Body()
        if not body.arguments:
            body.arguments = _ports(self.values, self.inputs or self.types)
            outputs = self.types if self.inputs or not self.values else []
        else:
            outputs = self.parser.returned
        name = self.symbol or self.keys.get("sym_name") or ""
        return Function(name, self.visibility or self.keys.get("sym_visibility") or "", outputs, body)


def _ports(names: Sequence[str], types: Sequence[Type]) -> list[Port]:
    """Return values with their types: the last as many as there are, or one for all."""
    if len(types) == 1:
        types = [types[0]] * len(names)
    last = types[len(types) - len(names) :] if len(types) >= len(names) else [Type("?")] * len(names)
    return [Port(name, kind) for name, kind in zip(names, last, strict=True)]


def _walk(functions: Sequence[Function], others: Sequence[Op]) -> list[Op]:
    return [*Module("", "", "", [], list(functions), list(others)).walk()]
