"""The session that every runtime gives: the safety work is done here, a runtime adds one hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, final

from vitrify import containers
from vitrify.core.errors import ModelError, VitrifyError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vitrify.core.protocols import Arrays
    from vitrify.core.signature import Signature


class BaseSession(ABC):
    """A session that checks what goes in, answers empty batches itself and wraps what the model raises.

    A model whose outputs are not known yet (it is just being saved) has none in its signature; then
    :meth:`run` returns whatever the hook gives.
    """

    def __init__(self, signature: Signature) -> None:
        """Keep the signature."""
        self.signature = signature

    @abstractmethod
    def _run(self, inputs: Arrays) -> Arrays:
        """Predict. ``inputs`` fit the signature, in its order, and have at least one row."""

    @final
    def run(self, inputs: Arrays) -> Arrays:
        """Predict; see :class:`vitrify.core.protocols.Session`."""
        arrays = containers.conform(inputs, self.signature.inputs)
        if self.signature.outputs and containers.rows(arrays, self.signature.inputs) == 0:
            return {field.name: containers.no_rows(field) for field in self.signature.outputs}
        try:
            outputs = self._run(arrays)
        except VitrifyError:
            raise
        except Exception as error:
            msg = f"the model raised {type(error).__name__}: {error}"
            raise ModelError(msg, remedy=_remedy(error)) from error
        return self._in_order(outputs)

    def predict(self, data: Any) -> Arrays:
        """Predict from any container; see :class:`vitrify.core.protocols.Session`."""
        return self.run(containers.to_arrays(data, self.signature))

    def close(self) -> None:  # noqa: B027 (most sessions have nothing to close)
        """Let go of the model. A runtime that holds more than Python objects overrides this."""

    def __enter__(self) -> Self:
        """Use the session in a ``with`` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def _in_order(self, outputs: Arrays) -> Arrays:
        fields = self.signature.outputs
        if not fields:
            return outputs
        if missing := [field.name for field in fields if field.name not in outputs]:
            msg = f"the model gave no output {missing} (it gave: {list(outputs)})"
            raise ModelError(msg)
        return {field.name: outputs[field.name] for field in fields}


def _remedy(error: Exception) -> str:
    if type(error).__name__ == "NotFittedError":
        return "fit the model first: call fit(...), then save it"
    return ""
