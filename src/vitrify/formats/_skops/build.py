"""From an audited tree to the live model."""

from __future__ import annotations

import collections
import functools
import json
import operator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vitrify.core.errors import MalformedError, VitrifyError
from vitrify.formats._skops import sparse
from vitrify.pickles import arrow, bounds, native_states
from vitrify.pickles import names as trust
from vitrify.reading import npy
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.formats._skops.node import Node
    from vitrify.reading.zip import Zip


class Builder:
    """Constructs the values of one audited tree; what was shared is shared again."""

    def __init__(self, archive: Zip, *, where: str) -> None:
        """Take content from ``archive``."""
        self._archive = archive
        self._where = where
        self._built: dict[int, Any] = {}

    def build(self, node: Node) -> Any:
        """Return the node's value.

        Raises:
            MalformedError: Its content does not fit its class.
        """
        if id(node) in self._built:
            return self._built[id(node)]
        try:
            value = self._BUILDS[node.loader](self, node)
        except VitrifyError:
            raise
        except Exception as error:
            msg = f"{self._where}: {node.dotted} could not be made from its content ({type(error).__name__}: {error})"
            remedy = f"load it with the version of {node.module.partition('.')[0]} that it was saved with"
            raise MalformedError(msg, remedy=remedy) from error
        self._built[id(node)] = value
        return value

    def _all(self, nodes: list[Node]) -> list[Any]:
        return [self.build(node) for node in nodes]

    def _class(self, node: Node, base: type = object) -> Any:
        cls = trust.resolve(node.module, node.name)
        if not isinstance(cls, type) or not issubclass(cls, base):
            refuse(self._where, f"{node.dotted} is no {'class' if base is object else base.__name__}")
        return cls

    def _read(self, node: Node) -> memoryview:
        return self._archive.read(node.raw["file"])

    def _json(self, node: Node) -> Any:
        content = node.raw["content"]
        if not isinstance(content, str):
            refuse(self._where, f"a JsonNode whose content is no text: {content!r:.60}")
        return json.loads(content)

    def _collection(self, node: Node) -> Any:
        return self._class(node, set if node.loader == "SetNode" else list)(self._all(node.children))

    def _tuple(self, node: Node) -> Any:
        items = self._all(node.children)
        if node.dotted == "builtins.tuple":
            return tuple(items)
        cls = self._class(node, tuple)
        if len(getattr(cls, "_fields", ())) != len(items):
            refuse(self._where, f"{len(items)} fields for {node.dotted}")
        return tuple.__new__(cls, items)

    def _dict(self, node: Node) -> dict[Any, Any]:
        value: dict[Any, Any] = self._class(node, dict)()
        kinds = self.build(node.children[0])
        keys = node.raw["keys"]
        if not isinstance(kinds, list) or len(kinds) != len(keys):
            refuse(self._where, f"{len(keys)} keys in a mapping with another number of key types")
        for kind, key, child in zip(kinds, keys, node.children[1:], strict=True):
            value[key if kind is str else self._key(kind, key)] = self.build(child)
        return value

    def _key(self, kind: Any, key: str) -> Any:
        """Turn a JSON key back into what it was; for booleans and None better than skops, which calls the type."""
        if kind in {bool, np.bool_, type(None)}:
            return kind(json.loads(key)) if kind is not type(None) else None
        if kind not in {str, int, float} and not (isinstance(kind, type) and issubclass(kind, np.generic)):
            refuse(self._where, f"keys of the type {kind!r:.60}")
        return kind(key)

    def _defaultdict(self, node: Node) -> collections.defaultdict[Any, Any]:
        main, factory = self._all(node.children)
        return collections.defaultdict(factory, main)

    def _bytes(self, node: Node) -> bytes | bytearray:
        return (bytes if node.loader == "BytesNode" else bytearray)(self._read(node))

    def _slice(self, node: Node) -> slice:
        return slice(*(node.raw[part] for part in ("start", "stop", "step")))

    def _name(self, node: Node) -> Any:
        return trust.resolve(node.module, node.name)

    def _method(self, node: Node) -> Any:
        return getattr(self.build(node.children[0]), node.raw["func"])

    def _partial(self, node: Node) -> functools.partial[Any]:
        func, args, kwds, namespace = self._all(node.children)
        value = functools.partial(func, *args, **kwds)
        vars(value).update(namespace or {})
        return value

    def _call(self, node: Node) -> Any:
        target = arrow.stand_in(node.dotted, where=self._where) or trust.resolve(node.module, node.name)
        args = self.build(node.children[0])
        gathers = isinstance(target, type) and issubclass(target, frozenset | dict)
        if gathers and not all(isinstance(arg, list | dict) for arg in args):
            refuse(self._where, f"a {node.dotted} of something that is no list")  # a range may have no end to speak of
        return target(*args)

    def _object(self, node: Node) -> Any:
        cls = self._class(node)
        arrow.check_class(cls, where=self._where)
        value = cls.__new__(cls)
        state = self.build(node.children[0]) if node.children else None
        if state is not None:
            _set_state(value, state, where=self._where)
        bounds.check_all([value], where=self._where)
        return value

    def _reduced(self, node: Node) -> Any:
        state, args = self._all(node.children)
        value = self._class(node)(*args)
        if state:
            _set_state(value, state, where=self._where)
        bounds.check_all([value], where=self._where)
        return value

    def _operator(self, node: Node) -> Any:
        return getattr(operator, node.name)(*self.build(node.children[0]))

    def _array(self, node: Node) -> Any:
        if node.raw["type"] == "json":
            return self._object_array(node)
        array = npy.decode(self._read(node), where=f"{self._where}: {node.raw['file']}")
        if node.dotted in {"numpy.ndarray", "numpy.memmap"}:
            return array
        cls = self._class(node)
        return array.view(cls) if issubclass(cls, np.ndarray) else self._scalar(array, cls)

    def _scalar(self, array: np.ndarray[Any, Any], cls: type) -> Any:
        value = array[()]
        if type(value) is not cls:
            refuse(self._where, f"an array of {array.dtype} {array.shape} for a scalar of {cls.__name__}")
        return value

    def _object_array(self, node: Node) -> np.ndarray[Any, Any]:
        *items, shape = self._all(node.children)
        array = np.empty(self._shape(shape, len(items)), object)
        for _ in range(array.ndim - 1):
            items = [item for part in items for item in part]
        if len(items) != array.size:
            refuse(self._where, f"{len(items)} objects for an array of shape {shape}")
        for index, item in enumerate(items):
            array.flat[index] = item
        return array

    def _shape(self, shape: Any, count: int) -> tuple[int, ...]:
        """Check a shape before it is allocated: its first size is the number of items at hand."""
        good = isinstance(shape, tuple) and all(type(size) is int and 0 <= size <= 2**31 for size in shape)
        if not good or count != (shape[0] if shape else 1) or (count and np.prod(shape, dtype=object) > 2**31):
            refuse(self._where, f"an array of {count} objects with the shape {shape!r:.80}")
        return tuple(shape)

    def _masked(self, node: Node) -> np.ma.MaskedArray[Any, Any]:
        data, mask, *fill = self._all(node.children)
        return np.ma.MaskedArray(data, mask, fill_value=fill[0][()] if fill else None)

    def _dtype(self, node: Node) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.build(node.children[0]).dtype
        return dtype

    def _sparse(self, node: Node) -> Any:
        return sparse.decode(self._read(node), where=f"{self._where}: {node.raw['file']}")

    def _random_state(self, node: Node) -> np.random.RandomState:
        value = np.random.RandomState()
        value.set_state(self.build(node.children[0]))
        return value

    def _generator(self, node: Node) -> np.random.Generator:
        state, *seed = self._all(node.children)
        sequence = np.random.SeedSequence(**seed[0]) if seed else None
        bits = getattr(np.random, state["bit_generator"])(sequence)
        bits.state = state
        return np.random.Generator(bits)

    _BUILDS: ClassVar[dict[str, Callable[[Any, Node], Any]]] = {
        "JsonNode": _json,
        "ListNode": _collection,
        "SetNode": _collection,
        "TupleNode": _tuple,
        "DictNode": _dict,
        "DefaultDictNode": _defaultdict,
        "BytesNode": _bytes,
        "BytearrayNode": _bytes,
        "SliceNode": _slice,
        "FunctionNode": _name,
        "TypeNode": _name,
        "MethodNode": _method,
        "PartialNode": _partial,
        "ConstructorFromReduceNode": _call,
        "ObjectNode": _object,
        "OperatorFuncNode": _operator,
        "NdArrayNode": _array,
        "MaskedArrayNode": _masked,
        "DTypeNode": _dtype,
        "RandomStateNode": _random_state,
        "RandomGeneratorNode": _generator,
        "SparseMatrixNode": _sparse,
        "TreeNode": _reduced,
        "LossNode": _reduced,
        "QuantileForestNode": _reduced,
    }


def _set_state(value: Any, state: Any, *, where: str) -> None:
    """Give an object its attributes as pickle does (the library reference, ``object.__setstate__``)."""
    native_states.check(type(value), state, where=where)
    if hasattr(value, "__setstate__"):
        value.__setstate__(state)
        return
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    vars(value).update(attributes) if attributes else None
    for name, item in (slots or {}).items():
        setattr(value, name, item)
