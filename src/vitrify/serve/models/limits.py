"""Limits: what settings may ask for. They come over the network, too, from whoever may load models.

What a number must be at least, :class:`vitrify.serve.lanes.Batching` says itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from vitrify.serve.settings import EnsembleSettings, ModelSettings

MOST_ROWS = 1 << 20
MOST_INSTANCES = 64
MOST_THREADS = 1024
MOST_MEMORY = 1 << 50
MOST_NAME = 200


def require_sane(settings: ModelSettings) -> None:
    """Refuse settings that no machine could keep.

    Raises:
        UsageError: They are such; the message names the field, what it is and what it may be.
    """
    batching = settings.batching
    for field, value, most in (
        ("batching.rows", batching.rows, MOST_ROWS),
        ("batching.instances", batching.instances, MOST_INSTANCES),
        ("threads", settings.threads, MOST_THREADS),
        ("process_memory", settings.process_memory, MOST_MEMORY),
    ):
        if not 0 <= value <= most:
            msg = f"{settings.reference!r}: {field} is {value} (expected at most {most})"
            raise UsageError(msg, remedy=f"set {field} to less")
    _require_named(settings, repr(settings.reference))


def require_sane_ensemble(settings: EnsembleSettings) -> None:
    """Refuse an ensemble whose name or version could not be said.

    Raises:
        UsageError: It is such; the message names the field, what it is and what it may be.
    """
    _require_named(settings, "an ensemble")


def _require_named(settings: ModelSettings | EnsembleSettings, what: str) -> None:
    for field, text in (("name", settings.name), ("version", settings.version)):
        if len(text) > MOST_NAME or not text.isprintable() or text != text.strip():
            expected = f"at most {MOST_NAME} printable characters"
            msg = f"{what}: {field} is {text[:MOST_NAME]!r} (expected {expected})"
            raise UsageError(msg, remedy="give it another one")
