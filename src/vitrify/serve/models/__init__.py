"""The models that are served: which versions there are, how each came to be trusted, and what it may do.

A version is ready when every byte of it was verified, the policy of this machine permits to serve it, its golden
samples gave what they gave when it was saved, and, where it is to be batched, batches gave bit for bit what single
requests give. A version that cannot prove the last is served unbatched, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from vitrify.core.signature import Signature
    from vitrify.serve.lanes import Batching, Figures
    from vitrify.serve.models._graph import Graph
    from vitrify.serve.ports import Port
    from vitrify.serve.settings import Loadable
    from vitrify.serve.values import Infer, Reply

State = Literal["LOADING", "READY", "UNLOADING", "UNAVAILABLE"]
"""As in the model repository extension of the Open Inference Protocol."""


@dataclass(frozen=True)
class Served:
    """One version of one model, as it stands now.

    Attributes:
        name: The name that it is served by.
        version: Its version in the registry or its tag; for an artifact that has neither, ``1``.
        number: A positive number for protocols that know versions only as such: the version itself where it is one,
        else
            the order in which the versions of this model were first loaded.
        digest: The artifact's.
        reference: What it was loaded from.
        platform: Format and runtime: ``onnx_onnxruntime``.
        state: What it is doing.
        reason: Why it is not ready, or what one should know although it is (not batched, and why).
        signature: Inputs and outputs, as the artifact says.
        inputs: The same on the wire.
        outputs: The same on the wire.
        batching: How its requests become batches; ``rows`` is 1 where it is not batched.
        since: When it came into this state, by ``time.time()``.
        size: Bytes of its files.
        lazy: Whether the next request loads it, so that it is as good as ready for whoever asks.
        graph: What an ensemble is made of; None for a model.
    """

    name: str
    version: str
    number: int
    digest: str
    reference: str
    platform: str
    state: State
    reason: str
    signature: Signature
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    batching: Batching
    since: float
    size: int
    lazy: bool = False
    graph: Graph | None = None


class Engine(Protocol):
    """What the protocols ask. Every method may be called from the event loop; none blocks it."""

    @property
    def ready(self) -> bool:
        """Whether everything that was to be loaded at the start is ready, and nothing is being drained."""

    async def infer(self, request: Infer) -> Reply:
        """Answer one request: choose the version, match the inputs with the signature, wait for the lane.

        Raises:
            ReferenceNotFoundError: No such model or version is served.
            SignatureError: The inputs do not fit, or an output is asked for that there is none of.
            BusyError: The queue is full.
            ExpiredError: The deadline passed.
            UnavailableError: It is loading, unloading or stuck.
            ModelError: The model raised.
        """

    def stream(self, request: Infer) -> AsyncIterator[Reply]:
        """Answer one request in parts as they are made; a model that makes no parts gives one. Raises as ``infer``."""

    def served(self, name: str, version: str = "") -> Served:
        """Return a version, by default the one that most requests are sent to; not necessarily ready.

        Raises:
            ReferenceNotFoundError: No such model or version is served.
        """

    def index(self) -> tuple[Served, ...]:
        """Return every version that is served, was, or may be loaded, by name and number."""

    def figures(self, name: str, version: str) -> Figures:
        """Return what one version's lane has done since the server started, across reloads."""

    def settings(self, name: str) -> tuple[Loadable, ...]:
        """Return what the versions of a model were, or may be, loaded with; none for a model that nobody has named."""

    async def load(self, settings: Loadable) -> Served:
        """Load a version, or load it again; the one before answers until the new one is ready, then drains.

        Raises:
            VitrifyError: It could not be loaded; what was served before still is.
        """

    async def unload(self, name: str, version: str = "") -> None:
        """Drain and let go of a version, or of all.

        Raises:
            ReferenceNotFoundError: There is no such model.
        """
