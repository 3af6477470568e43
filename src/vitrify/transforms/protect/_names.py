"""Every text in an ONNX model, and what becomes of it.

One table says it for each field of each message; a test holds it against ONNX's own description, and a field that is
not in it (of a later ONNX) is a reason to refuse. A name becomes a letter and 20 hex digits of an HMAC over its kind
and itself: the same name always becomes the same, in every scope, so that what belonged together still does, and
whoever has the key can name it again.

Source: ONNX IR, https://onnx.ai/onnx/repo-docs/IR.html, and ``onnx.proto``.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import onnx

Rule = Literal["value", "node", "graph", "function", "domain", "attribute", "size", "device", "keep", "drop", "see"]
"""A kind of name, which is replaced; ``keep``; ``drop``: it is emptied; ``see``: where it stands decides."""

RULES: dict[str, dict[str, Rule]] = {
    "ModelProto": {
        "producer_name": "drop",
        "producer_version": "drop",
        "domain": "drop",
        "doc_string": "drop",
        "metadata_props": "drop",
    },
    "OperatorSetIdProto": {"domain": "see"},
    "GraphProto": {"name": "graph", "doc_string": "drop", "metadata_props": "drop"},
    "NodeProto": {
        "input": "value",
        "output": "value",
        "name": "node",
        "op_type": "see",
        "domain": "see",
        "overload": "see",
        "doc_string": "drop",
        "metadata_props": "drop",
    },
    "AttributeProto": {
        "name": "see",
        "ref_attr_name": "attribute",
        "s": "keep",
        "strings": "keep",
        "doc_string": "drop",
    },
    "FunctionProto": {
        "name": "function",
        "domain": "domain",
        "overload": "function",
        "input": "value",
        "output": "value",
        "attribute": "attribute",
        "doc_string": "drop",
        "metadata_props": "drop",
    },
    "TensorProto": {
        "name": "see",
        "string_data": "keep",
        "raw_data": "keep",
        "doc_string": "drop",
        "metadata_props": "drop",
    },
    "SparseTensorProto": {},
    "ValueInfoProto": {"name": "value", "doc_string": "drop", "metadata_props": "drop"},
    "TensorAnnotation": {"tensor_name": "value"},
    "TrainingInfoProto": {},
    "StringStringEntryProto": {"key": "see", "value": "see"},
    "TypeProto": {"denotation": "drop"},
    "Tensor": {},
    "Sequence": {},
    "Map": {},
    "Optional": {},
    "SparseTensor": {},
    "Opaque": {"domain": "keep", "name": "keep"},
    "TensorShapeProto": {},
    "Dimension": {"dim_param": "size", "denotation": "drop"},
    "Segment": {},
    "DeviceConfigurationProto": {"name": "device", "device": "keep"},
    "NodeDeviceConfigurationProto": {"configuration_id": "device"},
    "ShardingSpecProto": {"tensor_name": "value"},
    "ShardedDimProto": {},
    "SimpleShardedDimProto": {"dim_param": "size"},
    "IntIntListEntryProto": {},
}

_ENTRIES: dict[str, tuple[Rule, Rule]] = {
    "external_data": ("keep", "keep"),
    "quant_parameter_tensor_names": ("keep", "value"),
    "initialization_binding": ("value", "value"),
    "update_binding": ("value", "value"),
}
"""Key and value of the entries of a field."""

_NAMED_TENSORS = frozenset({"initializer", "values"})
"""Fields whose tensors have a name that others use; the name of any other says nothing to anybody."""

_LETTERS: dict[str, str] = {
    "value": "v",
    "node": "n",
    "graph": "g",
    "function": "F",
    "domain": "d",
    "attribute": "a",
    "size": "s",
    "device": "c",
}
_DIGITS = 20


class Names:
    """From old names to new ones, and a record of both."""

    def __init__(self, secret: bytes, kept: dict[str, Collection[str]]) -> None:
        """Take the key, and by kind the names that stay."""
        self._secret = secret
        self._kept = {kind: frozenset(names) for kind, names in kept.items()}
        self._new: dict[tuple[str, str], str] = {}
        self._taken: dict[tuple[str, str], str] = {(kind, name): name for kind, names in kept.items() for name in names}

    def new(self, kind: str, name: str) -> str:
        """Return the new name; an empty one is none, and stays."""
        if not name or name in self._kept.get(kind, ()):
            return name
        if (kind, name) not in self._new:
            self._new[kind, name] = self._make(kind, name)
        return self._new[kind, name]

    def known(self) -> dict[str, dict[str, str]]:
        """Return the old names by the new ones, by kind."""
        found: dict[str, dict[str, str]] = {}
        for (kind, old), new in sorted(self._new.items()):
            found.setdefault(kind, {})[new] = old
        return found

    def _make(self, kind: str, name: str) -> str:
        attempt = 0
        while True:
            text = b"\0".join((kind.encode(), name.encode(), str(attempt).encode()))
            made = _LETTERS[kind] + hmac.digest(self._secret, text, "sha256").hex()[:_DIGITS]
            if self._taken.setdefault((kind, made), name) == name:
                return made
            attempt += 1  # only where the model has that very name already


class Renaming:
    """Renames one model in place."""

    def __init__(self, names: Names, model: onnx.ModelProto) -> None:
        """Look at what is called a function and which domains hold operators too."""
        self._names = names
        self._functions = {(function.domain, function.name, function.overload) for function in model.functions}
        self._domains = {domain for domain, _, _ in self._functions}
        self._others = {node.domain for node in nodes(model) if not self._is_call(node)}

    def apply(self, model: onnx.ModelProto) -> None:
        """Rename everything that the table says."""
        self._imports(model)
        for function in model.functions:
            self._imports(function)
        unnamed = [function for function in model.functions if not function.domain]
        self._message(model, "")
        for function in unnamed:
            function.domain = self._names.new("domain", "ai.onnx")
        model.ClearField("model_version")

    def _imports(self, part: Any) -> None:
        """Give a domain of functions its new name, beside the old one where operators are of that, too."""
        for entry in list(part.opset_import):
            if entry.domain in self._domains:
                new = self._names.new("domain", entry.domain or "ai.onnx")
                if entry.domain in self._others or entry.domain in {"", "ai.onnx"}:
                    part.opset_import.add(domain=new, version=entry.version)
                else:
                    entry.domain = new

    def _message(self, message: Any, place: str, *, call: bool = False) -> None:
        """Rename what is in a message.

        Args:
            message: It is changed.
            place: The field that it stands in.
            call: Whether it is an attribute of a call of a function, whose name is the function's to choose.
        """
        kind = message.DESCRIPTOR.name
        rules = RULES[kind]
        calls = kind == "NodeProto" and self._is_call(message)
        for field, value in message.ListFields():
            rule = rules.get(field.name)
            if rule == "drop":
                message.ClearField(field.name)
            elif rule == "see":
                setattr(message, field.name, self._seen(message, field.name, value, place, call=call))
            elif rule is not None and rule != "keep":
                self._rename(message, field.name, value, rule)
            elif field.message_type is not None:
                inner = calls or field.name == "attribute_proto"
                for part in value if not hasattr(value, "DESCRIPTOR") else (value,):
                    self._message(part, field.name, call=inner and field.name in {"attribute", "attribute_proto"})
        if calls:
            self._call(message)

    def _rename(self, message: Any, field: str, value: Any, rule: Rule) -> None:
        if isinstance(value, str):
            name = value or "ai.onnx" if rule == "domain" else value
            setattr(message, field, self._names.new(rule, name))
        else:
            value[:] = [self._names.new(rule, name) for name in value]

    def _seen(self, message: Any, field: str, value: str, place: str, *, call: bool) -> str:
        """Return what becomes of a text whose place decides; a call of a function is renamed as a whole, later."""
        match message.DESCRIPTOR.name:
            case "TensorProto":
                return self._names.new("value", value) if place in _NAMED_TENSORS else ""
            case "AttributeProto":
                return self._names.new("attribute", value) if call else value
            case "StringStringEntryProto":
                rule = _ENTRIES[place][field == "value"]
                return value if rule == "keep" else self._names.new(rule, value)
            case _:
                return value

    def _call(self, node: onnx.NodeProto) -> None:
        node.op_type = self._names.new("function", node.op_type)
        node.overload = self._names.new("function", node.overload)
        node.domain = self._names.new("domain", node.domain or "ai.onnx")

    def _is_call(self, node: onnx.NodeProto) -> bool:
        return (node.domain, node.op_type, node.overload) in self._functions


def unknown_fields(model: Any) -> Iterator[str]:
    """Yield fields that hold text or messages and are not in the table: of a later ONNX than this one knows."""
    seen, queue = set(), [model.DESCRIPTOR]
    while queue:
        descriptor = queue.pop()
        if descriptor.full_name in seen:
            continue
        seen.add(descriptor.full_name)
        rules = RULES.get(descriptor.name)
        for field in descriptor.fields:
            if field.message_type is not None:
                queue.append(field.message_type)
            elif field.cpp_type == field.CPPTYPE_STRING and (rules is None or field.name not in rules):
                yield f"{descriptor.name}.{field.name}"
        if rules is None and not descriptor.fields:
            yield descriptor.name


def nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield every node, of the graph, of the graphs in it, of functions and of training."""
    queue: list[Any] = [model.graph, *model.functions]
    for training in model.training_info:
        queue += [training.initialization, training.algorithm]
    while queue:
        for node in queue.pop().node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    queue.append(attribute.g)
                queue.extend(attribute.graphs)
