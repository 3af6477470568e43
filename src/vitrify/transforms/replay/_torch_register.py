"""How a function becomes PyTorch's operator: with values as they are, or as tensors, sizes being computed as sizes."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from vitrify.transforms.replay._sizes import Sizes
from vitrify.transforms.replay._torch_sizes import computed
from vitrify.transforms.replay._torch_values import OPS, tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.transforms.replay.walk import Node


def raw(*kinds: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that gets values as they are."""
    return OPS.op(*kinds, domain=domain)


def op(*kinds: str, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function that gets tensors; sizes alone are computed as sizes where that is possible."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(node: Node, *given: Any) -> Any:
            if any(isinstance(value, Sizes) for value in given):
                answer = computed(node, given)
                if answer is not None:
                    return answer
            return function(node, *(None if value is None else tensor(value) for value in given))

        OPS.op(*kinds, domain=domain)(called)
        return function

    return register
