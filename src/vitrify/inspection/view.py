"""The graph of a model file or artifact, for drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Drawn
from vitrify.formats._facts import element

if TYPE_CHECKING:
    from vitrify.core.graph import Graph
    from vitrify.inspection.identify import Identity


def graph(one: Identity) -> Graph:
    """Return the graph of operators that the files hold; nothing in them runs, and no weight is read.

    Raises:
        UnsupportedModelError: The format holds no graph.
        MalformedError: It is not what its format allows.
    """
    form = one.format
    if not isinstance(form, Drawn):
        drawn = ", ".join(row.name for row in catalog().rows("format") if isinstance(row.look(), Drawn))
        msg = f"{one.row.name} files hold no graph of operators (those that do: {drawn})"
        raise UnsupportedModelError(msg, remedy="see what is in it with: vitrify inspect")
    return _in_common_words(form.graph(one.files, one.entry))


def _in_common_words(drawn: Graph) -> Graph:
    """Name element types as ``inspect`` does, whatever the format calls them; inside of operators too."""
    tensors = {name: tensor.replace(type=element(tensor.type)) for name, tensor in drawn.tensors.items()}
    nodes = tuple(
        node.replace(graphs={name: _in_common_words(inner) for name, inner in node.graphs.items()})
        if node.graphs
        else node
        for node in drawn.nodes
    )
    return drawn.replace(tensors=tensors, nodes=nodes)
