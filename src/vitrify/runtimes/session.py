"""The session that every runtime gives: the safety work is done here, a runtime adds one hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, final

from vitrify import containers
from vitrify.core.errors import ModelError, UsageError, VitrifyError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vitrify.core.document import Document
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
        return self.run_conformed(containers.conform(inputs, self.signature.inputs))

    @final
    def run_conformed(self, arrays: Arrays) -> Arrays:
        """Predict from arrays that fit already, as :func:`vitrify.containers.conform` returns them: nobody looks again.

        Raises:
            ModelError: The model raised.
        """
        if containers.rows(arrays, self.signature.inputs) == 0 and self.signature.outputs:
            nothing = {field.name: containers.no_rows(field) for field in self.signature.outputs}
            if not any(array.size for array in nothing.values()):  # else an output is not of the batch: only it knows
                return nothing
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
        try:
            return {field.name: outputs[field.name] for field in fields}
        except KeyError:
            missing = [field.name for field in fields if field.name not in outputs]
            msg = f"the model gave no output {missing} (it gave: {list(outputs)})"
            raise ModelError(msg) from None


def signature_of(document: Document, what: str) -> Signature:
    """Return the signature by whose names a model is called.

    Raises:
        UsageError: There is none.
    """
    if document.signature is None:
        msg = f"{what} without a signature cannot be called with named arrays"
        raise UsageError(msg, remedy="save it with an example: save(model, name, example=X[:100])")
    return document.signature


def _remedy(error: Exception) -> str:
    if type(error).__name__ == "NotFittedError":
        return "fit the model first: call fit(...), then save it"
    return ""
