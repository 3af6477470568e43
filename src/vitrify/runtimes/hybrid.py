"""Hybrid artifacts: each part in its own runtime, arrays handed on by name."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.catalog import catalog
from vitrify.core.errors import MalformedError, UsageError
from vitrify.formats._hybrid import recipe as recipes
from vitrify.runtimes.session import BaseSession

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files, Session
    from vitrify.core.signature import Field, Signature
    from vitrify.formats._hybrid.recipe import Recipe, Source

    Array = np.ndarray[Any, Any]


class Hybrid:
    """The runtime of artifacts in parts."""

    def open(self, files: Files, document: Document, allow: Allow) -> HybridSession:
        """Open every part with its own runtime; if one cannot be, those before it are closed again.

        Raises:
            MissingDependencyError: A part's library is not installed; the message names the part's runtime.
        """
        recipe = recipes.read(files)
        if document.signature is None:
            msg = "a hybrid artifact cannot be called without a signature"
            raise UsageError(msg, remedy="convert the model again")
        _require_slots(recipe, document.signature)
        with ExitStack() as stack:
            sessions: dict[int, Session] = {}
            for index, _, part in recipes.models(recipe):
                allow.require(part.code.names, what=f"loading step {index}")
                runtime = catalog().load("runtime", str(part.runtime))
                opened = runtime.open(recipes.files_of(files, recipe, index), part, allow)
                sessions[index] = stack.enter_context(closing(opened))
            return HybridSession(document.signature, recipe, sessions, stack.pop_all())

    def wrap(self, model: Any, document: Document) -> HybridSession:
        """Refuse: there is no live model that is a hybrid.

        Raises:
            UsageError: Always.
        """
        del model, document
        msg = "a hybrid is made by converting a model; there is no live object of it"
        raise UsageError(msg, remedy="save the model in its own format, then: vitrify convert NAME --to hybrid")

    def entry(self, model: Any, example: Example) -> dict[str, Any]:  # noqa: ARG002 (the protocol's)
        """Return nothing: all is in the recipe."""
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:  # noqa: ARG002 (the protocol's)
        """Return nothing: the signature is the source's."""
        return ()


class HybridSession(BaseSession):
    """The open parts."""

    def __init__(self, signature: Signature, recipe: Recipe, sessions: Mapping[int, Session], held: ExitStack) -> None:
        """Chain the sessions; ``held`` closes them."""
        super().__init__(signature)
        self._recipe = recipe
        self._sessions = sessions
        self._held = held

    def _run(self, inputs: Arrays) -> Arrays:
        slots: Arrays = dict(inputs)
        for index, stage in enumerate(self._recipe.steps):
            if index in self._sessions:
                fed = {name: _taken(slots, source) for name, source in stage.feeds.items()}
                given = self._sessions[index].run(fed)
            else:
                parts = [_taken(slots, source) for source in stage.joined]
                given = {recipes.JOINED: np.hstack([part if part.ndim > 1 else part[:, np.newaxis] for part in parts])}
            slots.update({slot: given[name] for name, slot in stage.gives.items()})
        return {name: _taken(slots, source) for name, source in self._recipe.outputs.items()}

    def close(self) -> None:
        """Close every part."""
        self._held.close()


def _taken(slots: Arrays, source: Source) -> Array:
    array = slots[source.slot]
    if source.columns is not None:
        array = array[:, list(source.columns)]
    return array[:, 0] if source.vector and array.ndim > 1 else array


def _require_slots(recipe: Recipe, signature: Signature) -> None:
    """Refuse a recipe that asks for what is not there yet.

    Raises:
        MalformedError: A step is fed from a slot that neither the signature nor a step before it fills.
    """
    filled = {field.name for field in signature.inputs}
    for index, stage in enumerate(recipe.steps):
        asked = {source.slot for source in (*stage.feeds.values(), *stage.joined)}
        if unknown := sorted(asked - filled):
            msg = (
                f"{recipes.FILE}: step {index} ({stage.name!r}) takes {', '.join(unknown)}, which nothing fills before"
            )
            raise MalformedError(msg, remedy="convert the model again")
        filled |= set(stage.gives.values())
