"""Workers: models in processes of their own, so that what one does (crash, hang, leak) harms nothing else.

Which models: those whose settings say so; where they say nothing, every model but those of :data:`HERE`. A model in
this process costs less a request and shares its memory; one in a worker costs about a tenth of a millisecond more a
batch, and has a Python of its own, of another environment where ``python`` names one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.artifacts.permit import permit
from vitrify.serve.models import opening

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Session
    from vitrify.serve.settings import ModelSettings

HERE = frozenset({"iree", "litert", "onnxruntime", "openvino", "torchscript", "xgboost"})
"""Runtimes that read data and not code, and run it outside Python: they hold up no other model."""


def runs_apart(artifact: Artifact, settings: ModelSettings) -> bool:
    """Say whether a model is run by workers."""
    if settings.process is not None or settings.python:
        return bool(settings.process or settings.python)
    return bool(artifact.document.code.names) or (settings.runtime or artifact.document.runtime) not in HERE


def open_session(artifact: Artifact, settings: ModelSettings) -> Session:
    """Open a model where it belongs: in a worker or in this process.

    Raises:
        DeniedError: The policy of this machine does not allow to serve or to load it.
        UntrustedCodeError: It needs code that ``allow`` does not name.
        UsageError: It has no signature, nothing opens its format, or ``python`` cannot run Vitrify.
        UnavailableError: Its worker ended while it opened it.
    """
    if not runs_apart(artifact, settings):
        return opening.open_session(artifact, settings)
    from vitrify.serve.workers._wire import Task
    from vitrify.serve.workers.session import open_worker

    permit(artifact, "serve")
    signature = artifact.signature
    task = Task(
        store=str(artifact.store.root),
        digest=str(artifact.digest),
        known_as=artifact.name,
        reference=settings.reference,
        runtime=settings.runtime,
        allow=settings.allow,
        threads=settings.threads,
    )
    return open_worker(
        signature,
        task,
        python=settings.python,
        run_seconds=settings.batching.run_seconds,
        memory=settings.process_memory,
    )
