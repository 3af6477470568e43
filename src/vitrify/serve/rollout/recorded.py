"""Recorded: an engine that remembers what was loaded and unloaded, whichever protocol asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vitrify.serve.lanes import Figures
    from vitrify.serve.models import Served
    from vitrify.serve.models.engine import ServingEngine
    from vitrify.serve.rollout.applying import Applying
    from vitrify.serve.settings import Loadable


class RecordedEngine:
    """The engine as the protocols see it; see :class:`vitrify.serve.models.Engine`.

    Args:
        engine: Answers.
        applying: Loads and unloads.
    """

    def __init__(self, engine: ServingEngine, applying: Applying) -> None:
        """Answer as the engine does, without a call between."""
        self._engine, self._applying = engine, applying
        self.infer = engine.infer
        self.stream = engine.stream

    @property
    def ready(self) -> bool:
        """Whether the engine is."""
        return self._engine.ready

    def served(self, name: str, version: str = "") -> Served:
        """Return a version, by default the one that most requests are sent to."""
        return self._engine.served(name, version)

    def index(self) -> tuple[Served, ...]:
        """Return every version."""
        return self._engine.index()

    def figures(self, name: str, version: str) -> Figures:
        """Return what a version has done."""
        return self._engine.figures(name, version)

    def settings(self, name: str) -> tuple[Loadable, ...]:
        """Return what the versions of a model were loaded with."""
        return self._engine.settings(name)

    def labels(self, name: str) -> dict[str, str]:
        """Return the version that each alias of a model leads to."""
        return self._engine.labels(name)

    async def load(self, settings: Loadable) -> Served:
        """Load a version, here and in every process of this server."""
        return await self._applying.load(settings)

    async def unload(self, name: str, version: str = "") -> None:
        """Let go of a version, or of all."""
        await self._applying.unload(name, version)
