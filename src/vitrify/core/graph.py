"""Graph: the operators of a model and the tensors between them, as a value that can be drawn."""

from __future__ import annotations

from vitrify.core.wire import Value


class Tensor(Value, frozen=True, kw_only=True):
    """What flows along an edge, or lies in the model.

    Attributes:
        type: Element type, as the format writes it; empty where it is not known.
        shape: Sizes; text for one that may change, None for one that is not known. None where not even the rank is.
        weight: Whether it is stored in the model.
    """

    type: str = ""
    shape: tuple[int | str | None, ...] | None = None
    weight: bool = False


class Node(Value, frozen=True, kw_only=True):
    """One operator.

    Attributes:
        operator: Its type, ``Conv`` or ``com.microsoft.FusedMatMul``.
        name: Its own name, empty where it has none.
        inputs: Names of tensors, in order; empty text for one that was left out.
        outputs: Names of tensors, in order.
        attributes: For people: short text.
        graphs: The graphs inside it (branches, bodies), by name.
    """

    operator: str
    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: dict[str, str] = {}
    graphs: dict[str, Graph] = {}


class Graph(Value, frozen=True, kw_only=True):
    """Operators in the order of the file, and what is known of the tensors by name."""

    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    tensors: dict[str, Tensor] = {}
