"""The graph of a TorchScript method: a node for each call, modules and functions of the file with their own graph.

What a method calls of the same file is folded into one node; a file that folds the same method so often that nobody
could draw it keeps the node without its graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.graph import Graph, Node, Tensor
from vitrify.formats._torch.script_code import joined
from vitrify.reading.malformed import exceed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.formats._torch.script_code import Class, Line, Method

MAX_NODES = 20_000
MAX_DEPTH = 60
_TEXT = 80
_MAX_TEXT = 200


class Drawing:
    """The classes and functions of a file, and the graphs of those methods that were drawn so far."""

    def __init__(self, classes: Mapping[str, Class], functions: Mapping[str, Method], *, where: str) -> None:
        """Take the code."""
        self.classes = classes
        self.functions = functions
        self.where = where
        self._graphs: dict[str, tuple[Graph, int]] = {}
        self._open: set[str] = set()

    def graph(self, cls: str, method: str = "forward") -> Graph:
        """Return the graph of a method.

        Raises:
            MalformedError: There is no such method, or its code is none.
            LimitExceededError: It is nested deeper than anything that can be drawn.
        """
        return self.drawn(f"{cls}.{method}", self.classes[cls].methods[method], cls)[0]

    def drawn(self, name: str, method: Method, cls: str) -> tuple[Graph, int]:
        """Return a graph, and how many nodes are in it and below it."""
        if name not in self._graphs:
            if name in self._open or len(self._open) > MAX_DEPTH:
                return Graph(name=name), 1  # PyTorch has no recursion; such a file does not load
            self._open.add(name)
            self._graphs[name] = _Drawer(self, method, cls).graph(name)
            self._open.discard(name)
        return self._graphs[name]


class _Drawer:
    """One method being read: which name stands for which tensor, module or piece of text."""

    def __init__(self, drawing: Drawing, method: Method, cls: str) -> None:
        self._drawing = drawing
        self._method = method
        self._modules = {"self": (cls, "")}
        self._names: dict[str, str] = {}
        self._tensors: dict[str, Tensor] = {}
        self._nodes: list[Node] = []
        self._outputs: list[str] = []
        self._known: set[str] = set()
        self._count = 0
        self._tokens: list[str] = []
        self._at = 0
        self._depth = 0

    def graph(self, name: str) -> tuple[Graph, int]:
        inputs = tuple(parameter for parameter, _ in self._method.parameters if parameter != "self")
        for parameter, kind in self._method.parameters:
            if parameter != "self":
                self._known.add(parameter)
                self._tensors[parameter] = Tensor(type="" if kind == "Tensor" else kind[:_TEXT])
        self._block(self._method.body)
        nodes, outputs = tuple(self._nodes), tuple(dict.fromkeys(self._outputs))
        made = Graph(name=name, inputs=inputs, outputs=outputs, nodes=nodes, tensors=self._tensors)
        return made, self._count + len(nodes)

    def _block(self, lines: list[Line]) -> None:
        at = 0
        while at < len(lines):
            line = lines[at]
            at += 1
            match line.tokens:
                case ["if", *condition, ":"]:
                    other = lines[at].block if at < len(lines) and lines[at].tokens[0] == "else" else []
                    at += bool(other)
                    self._branches("If", condition, {"then": line.block, "else": other})
                case ["for", *_, ":"] as tokens:
                    self._branches(
                        "For", tokens[tokens.index("in") + 1 : -1] if "in" in tokens else [], {"body": line.block}
                    )
                case ["while", *condition, ":"]:
                    self._branches("While", condition, {"body": line.block})
                case ["with", *_, ":"]:
                    self._block(line.block)
                case ["return", *value]:
                    self._outputs += [name for name in self._values(value) if name in self._known]
                case ["pass" | "assert" | "break" | "continue" | "else", *_]:
                    pass
                case tokens:
                    self._statement(tokens)

    def _branches(self, operator: str, condition: list[str], blocks: dict[str, list[Line]]) -> None:
        """Add a node for a block that may run or not, or often; what is set inside it, it gives out."""
        inputs = self._values(condition)
        graphs: dict[str, Graph] = {}
        outputs: dict[str, None] = {}
        self._enter()
        before = dict(self._names)
        for name, lines in blocks.items():
            kept, self._nodes, self._names = self._nodes, [], dict(before)
            self._block(lines)
            inner, self._nodes = tuple(self._nodes), kept
            made = [output for node in inner for output in node.outputs if not output.startswith("%")]
            renamed = [target for target, value in self._names.items() if before.get(target) != value]
            outputs.update(dict.fromkeys((*made, *renamed)))
            self._count += len(inner)
            graphs[name] = Graph(name=name, nodes=inner)
        self._depth -= 1
        self._names = {target: value for target, value in before.items() if target not in outputs}
        self._known.update(outputs)
        self._nodes.append(Node(operator=operator, inputs=tuple(inputs), outputs=tuple(outputs), graphs=graphs))

    def _statement(self, tokens: list[str]) -> None:
        """Read ``a, b, = value``, ``self.a = value`` or a call alone."""
        if "=" not in tokens:
            self._values(tokens)
            return
        at = tokens.index("=")
        if "(" in tokens[:at]:  # a call with a named argument
            self._values(tokens)
            return
        targets = [token for token in tokens[:at] if token not in {",", "self", "."}]
        before = len(self._nodes)
        module = self._module_of(tokens[at + 1 :])
        if module is not None:
            self._modules[targets[0]] = module
            return
        values = self._values(tokens[at + 1 :])
        last = self._nodes[-1] if len(self._nodes) > before else None
        if last is not None and last.outputs and values == [last.outputs[0]]:
            self._nodes[-1] = Node(
                operator=last.operator, name=last.name, inputs=last.inputs, outputs=tuple(targets), graphs=last.graphs
            )
            self._known.update(targets)
        elif len(values) == len(targets):
            self._names.update(zip(targets, values, strict=True))

    def _module_of(self, tokens: list[str]) -> tuple[str, str] | None:
        """Return the class and path of the module that an expression is, where it is one and nothing else."""
        match tokens:
            case [base, ".", attribute] if base in self._modules:
                pass
            case ["getattr", "(", base, ",", attribute, ")"] if base in self._modules:
                attribute = attribute.strip("\"'")
            case [base] if base in self._modules:
                return self._modules[base]
            case _:
                return None
        cls, path = self._modules[base]
        kind = self._drawing.classes[cls].attributes.get(attribute, "") if cls in self._drawing.classes else ""
        return (kind, f"{path}.{attribute}" if path else attribute) if kind in self._drawing.classes else None

    # Expressions

    def _values(self, tokens: list[str]) -> list[str]:
        """Return the names of what an expression gives; calls in it become nodes."""
        outer, self._tokens, self._at = (self._tokens, self._at), tokens, 0
        found: list[str] = []
        while self._at < len(tokens):
            found += self._expression()
        self._tokens, self._at = outer
        return found

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            exceed(self._drawing.where, f"code nested more than {MAX_DEPTH} levels deep")

    def _expression(self) -> list[str]:
        """Read one value with everything that hangs on it: attributes, calls, indices; or one operator between two."""
        start = self._at
        token = self._peek()
        self._at += 1
        if token in _OPEN:
            values = self._listed()
        elif token in _KEYWORDS or not (token[0].isalnum() or token[0] == "_"):
            return []
        else:
            name = self._names.get(token, token)
            values = [name] if name in self._known else []
        while self._peek() in _HANGS:
            values = self._trailer(start, values)
        return values

    def _listed(self) -> list[str]:
        """Read values up to the closing bracket."""
        self._enter()
        values: list[str] = []
        while self._peek() not in _CLOSED:
            values += self._expression()
        self._at += 1
        self._depth -= 1
        return values

    def _trailer(self, start: int, values: list[str]) -> list[str]:
        mark, end = self._peek(), self._at
        self._at += 1
        if mark == ".":
            self._at += 1
            return self._attribute(start, values)
        if mark == "[":
            return values + self._listed()
        called = self._tokens[start:end] if end - start <= _LONGEST else ["..."]
        # A method of a value is called with the value.
        return self._call(called, values + self._listed())

    def _attribute(self, start: int, values: list[str]) -> list[str]:
        """Return a stored tensor of a module, where this is one."""
        match self._tokens[start : self._at]:
            case [base, ".", attribute] if base in self._modules:
                cls, path = self._modules[base]
                known = self._drawing.classes.get(cls)
                if known is not None and known.attributes.get(attribute) in {"Tensor", "Optional[Tensor]"}:
                    name = ".".join(part for part in ("self", path, attribute) if part)
                    self._tensors[name] = Tensor(weight=True)
                    self._known.add(name)
                    return [name]
        return values

    def _call(self, called: list[str], inputs: list[str]) -> list[str]:
        self._count += 1
        if self._count > MAX_NODES:
            exceed(self._drawing.where, f"more than {MAX_NODES} calls to draw")
        output = f"%{self._count}"
        operator, name, graphs = self._what(called)
        if operator in _TRANSPARENT:
            return inputs
        self._nodes.append(Node(operator=operator, name=name, inputs=tuple(inputs), outputs=(output,), graphs=graphs))
        self._known.add(output)
        return [output]

    def _what(self, called: list[str]) -> tuple[str, str, dict[str, Graph]]:
        """Return the operator, a name, and the graph of what is called."""
        match called:
            case ["(", base, ")", ".", method] if base in self._modules:
                cls, path = self._modules[base]
                known = self._drawing.classes.get(cls)
                if known is not None and method in known.methods:
                    graphs = self._folded(f"{cls}.{method}", known.methods[method], cls)
                    short = cls.rpartition(".")[2]
                    return short if method == "forward" else f"{short}.{method}", path, graphs
        text = joined(called)
        if text in self._drawing.functions:
            return text.removeprefix("__torch__."), "", self._folded(text, self._drawing.functions[text], "")
        return text.removeprefix("torch.").removeprefix("ops.")[:_MAX_TEXT], "", {}

    def _folded(self, name: str, method: Method, cls: str) -> dict[str, Graph]:
        graph, count = self._drawing.drawn(name, method, cls)
        if self._count + count > MAX_NODES:
            return {}
        self._count += count
        return {method.name: graph}


_TRANSPARENT = frozenset({"annotate", "unchecked_cast", "int", "float", "bool", "getattr", "uninitialized"})
_OPEN = frozenset({"(", "[", "{"})
_CLOSED = frozenset({")", "]", "}", ""})
_HANGS = frozenset({".", "(", "["})
_KEYWORDS = frozenset({"in", "not", "if", "else", "and", "or", "is"})
_LONGEST = 100
"""Tokens of a name that is called."""
