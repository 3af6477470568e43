"""``ModelSpec``: which version of which model is asked, and which one answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, ReferenceNotFoundError
from vitrify.serve.protocols._asking import STICKY, versions
from vitrify.serve.protocols.tensorflow_rest import SIGNATURE
from vitrify.serve.values import Infer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vitrify.core.protocols import Arrays
    from vitrify.serve.models import Engine, Served
    from vitrify.serve.rpc import RpcCall
    from vitrify.serve.values import Reply

    Labels = Callable[[str], Mapping[str, str]]
    """From a model to its labels, and the version that each stands for."""


@dataclass(frozen=True)
class Asked:
    """What a specification leads to.

    Attributes:
        served: The version; where the caller named none, the one that most requests are sent to.
        version: The caller's choice; empty where the rollout decides.
    """

    served: Served
    version: str

    def infer(self, inputs: Arrays, call: RpcCall, outputs: tuple[str, ...]) -> Infer:
        """Return the request of a call."""
        return Infer(
            self.served.name,
            inputs,
            version=self.version,
            outputs=outputs,
            deadline=call.deadline,
            client=call.client,
            key=call.metadata.get(STICKY, ""),
        )


class Specs:
    """Reads and writes specifications."""

    def __init__(self, engine: Engine, labels: Labels) -> None:
        """Keep what knows the versions."""
        self._engine = engine
        self._labels = labels

    def find(self, spec: Any) -> Asked:
        """Return what is asked.

        Raises:
            MalformedError: It names no model.
            ReferenceNotFoundError: There is no such model, version, label or signature.
        """
        if spec.signature_name not in {"", SIGNATURE}:
            msg = f"model_spec.signature_name: found {spec.signature_name[:100]!r}, expected {SIGNATURE}"
            raise ReferenceNotFoundError(msg)
        return self.find_version(spec)

    def find_version(self, spec: Any) -> Asked:
        """Return what is asked, whatever the signature; raises as :meth:`find`."""
        if not spec.name:
            raise MalformedError("model_spec.name: found nothing, expected the name of a model")
        choice = spec.WhichOneof("version_choice")
        if choice is None:
            return Asked(self._engine.served(spec.name), "")
        if choice == "version":
            return self._numbered(spec.name, spec.version.value)
        known = self._labels(spec.name)
        if spec.version_label not in known:
            msg = (
                f"model_spec.version_label: {spec.name[:100]!r} has no label {spec.version_label[:100]!r} "
                f"(there are: {', '.join(sorted(known)) or 'none'})"
            )
            raise ReferenceNotFoundError(msg)
        version = known[spec.version_label]
        return Asked(self._engine.served(spec.name, version), version)

    def write(self, spec: Any, reply: Reply) -> None:
        """Say which version answered."""
        spec.name, spec.signature_name = reply.model, SIGNATURE
        spec.version.value = self._number(reply)

    def _number(self, reply: Reply) -> int:
        try:
            return self._engine.served(reply.model, reply.version).number
        except ReferenceNotFoundError:  # gone in the meantime
            return int(reply.version) if reply.version.isascii() and reply.version.isdigit() else 0

    def _numbered(self, name: str, number: int) -> Asked:
        known = versions(self._engine, name)
        found = next((one for one in known if one.number == number), None)
        if found is None:
            numbers = ", ".join(str(one.number) for one in known)
            msg = f"model_spec.version: {name[:100]!r} has no version {number} (there are: {numbers})"
            raise ReferenceNotFoundError(msg)
        return Asked(found, found.version)
