"""The shape of decision trees: children that exist, and no way back.

The libraries follow child numbers without looking: a cycle hangs them, a number out of range reads memory that
is not theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import MalformedError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def check(left: NDArray[Any], right: NDArray[Any], *, where: str) -> None:
    """Accept nodes that form one tree: from node 0, every node is reached at most once.

    Args:
        left: A number for each node: the child's node, or negative where that side ends.
        right: The same.
        where: What tree it is, for the error message.

    Raises:
        MalformedError: A child does not exist, or a node has two parents (as in every cycle).
    """
    count = len(left)
    if len(right) != count:
        msg = f"{where}: {count} left and {len(right)} right children"
        raise MalformedError(msg)
    children = np.concatenate([left, right]).astype(np.int64)
    children = children[children >= 0]
    if np.any(children >= count):
        msg = f"{where}: child {children.max()} of {count} nodes"
        raise MalformedError(msg)
    parents = np.bincount(children, minlength=max(count, 1))
    parents[0] += 1  # the root is reached from outside
    if np.any(parents > 1):
        msg = f"{where}: node {np.argmax(parents > 1)} is reached in more than one way"
        raise MalformedError(msg)
