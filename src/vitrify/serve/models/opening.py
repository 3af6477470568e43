"""Opening: from what settings name to an artifact, its name and version here, and sessions that answer.

:func:`open_session` is the one place at which a model is opened for serving; whoever runs models elsewhere, in worker
processes, gives the engine another function of this form.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from vitrify import stores
from vitrify.artifacts.artifact import Artifact, open_artifact
from vitrify.artifacts.load import record_trust
from vitrify.artifacts.permit import permit
from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError
from vitrify.core.protocols import Session, Stateful, Streams
from vitrify.core.reference import DEFAULT_TAG, parse
from vitrify.runtimes.session import BaseSession
from vitrify.runtimes.threads import threads
from vitrify.serve.settings import ModelSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Arrays
    from vitrify.core.reference import Reference
    from vitrify.registry.registry import Registry
    from vitrify.serve.lanes import Run
    from vitrify.stores.oci_layout import OciLayout

OpenSession = Callable[[Artifact, ModelSettings], Session]
"""Opens a model so that it answers; what it raises of VitrifyError is why the model is not served."""
Connect = Callable[[], "Registry"]

FIRST = "1"
"""The version of what has none of its own."""
_SHARED = frozenset({"onnxruntime"})
"""Runtimes whose sessions may be run from several threads at a time."""


@runtime_checkable
class Apart(Protocol):
    """A session that answers one at a time, elsewhere, and may be down although it is open."""

    @property
    def trouble(self) -> str:
        """Why it does not answer now, for everybody to read; empty where it does."""


@dataclass(frozen=True)
class Source:
    """Where a version comes from, so that the same bytes can be opened again after it was let go.

    Attributes:
        store: Where it lies.
        digest: The artifact's.
        known_as: The name that policies ask about; None where it has none.
        name: What it is served as.
        version: Which version it is.
    """

    store: OciLayout
    digest: Digest
    known_as: str | None
    name: str
    version: str

    def open(self) -> Artifact:
        """Return the artifact; every byte of it is verified.

        Raises:
            CorruptError: A byte is not what its digest promises.
            ReferenceNotFoundError: It is no longer there.
        """
        with self.store.kept():
            artifact = Artifact.of(self.store, self.digest, self.known_as)
            artifact.files.verify()
        return artifact


def label(settings: ModelSettings) -> tuple[str, str]:
    """Return the name and, as far as the settings' own text tells, the version; for an alias it is the alias.

    Raises:
        UsageError: The reference is none.
    """
    parsed = parse(settings.reference)
    name, version = _said(parsed)
    return settings.name or name, settings.version or version


def find(settings: ModelSettings, store: OciLayout | None, connect: Connect) -> tuple[Source, Artifact]:
    """Return where a version comes from, and its verified artifact.

    Args:
        settings: What is to be served.
        store: Where to look and what to fetch into; by default the user's store.
        connect: Opens the registry, for an alias; closed again.

    Raises:
        VitrifyError: As :func:`vitrify.open`.
    """
    parsed = parse(settings.reference)
    name, version = label(settings)
    if parsed.kind == "alias":
        where = store or stores.default_store()
        digest, found = _fetched(parsed, where, connect)
        source = Source(where, digest, parsed.known_as, name, settings.version or found)
        return source, source.open()
    artifact = open_artifact(settings.reference, store=store)
    if parsed.kind == "path" and artifact.name:
        base, _, tag = artifact.name.partition(":")
        name, version = settings.name or base, settings.version or _tag(tag)
    return Source(artifact.store, artifact.digest, artifact.name, name, version), artifact


def open_session(artifact: Artifact, settings: ModelSettings) -> Session:
    """Open a model in this process, with the threads that it may use.

    Raises:
        DeniedError: The policy of this machine does not allow to serve or to load it.
        UntrustedCodeError: It needs code that ``allow`` does not name.
        UsageError: It has no signature, or nothing here opens its format.
    """
    if settings.process or settings.python:
        msg = f"{settings.reference!r} is to run in worker processes, and this server was started without them"
        raise UsageError(msg, remedy="leave process and python out of its settings")
    permit(artifact, "serve")
    with threads(settings.threads):
        session = artifact.session(runtime=settings.runtime, allow=settings.allow)
    if artifact.document.code.names:
        record_trust(artifact)
    return session


class Sessions:
    """The open sessions of one version: one, or as many as are run at a time where the runtime's cannot be shared."""

    def __init__(self, artifact: Artifact, settings: ModelSettings, open_one: OpenSession) -> None:
        """Open them; where one fails, those before it are closed."""
        self._all: list[Session] = []
        self._free: SimpleQueue[tuple[Session, Run]] = SimpleQueue()
        self._shared: Run | None = None
        try:
            first = open_one(artifact, settings)
            self._all.append(first)
            runtime = settings.runtime or artifact.document.runtime
            shared = runtime in _SHARED and not isinstance(first, (Apart, Streams))
            for _ in range(0 if shared else settings.batching.instances - 1):
                self._all.append(open_one(artifact, settings))
        except BaseException:
            self.close()
            raise
        if shared or (len(self._all) == 1 and not isinstance(first, Streams)):  # only streams come between batches
            self._shared = _run(first)
        for session in self._all:
            self._free.put((session, _run(session)))

    @property
    def first(self) -> Session:
        """One of them."""
        return self._all[0]

    def run(self, arrays: Arrays) -> Arrays:
        """Run a batch that fits the signature already, on a session that nobody else uses."""
        if (shared := self._shared) is not None:
            return shared(arrays)
        with self._taken() as (_, run):
            return run(arrays)

    def stream(self, arrays: Arrays) -> Iterator[Arrays]:
        """Yield the parts of one answer, from a session that nobody else uses meanwhile."""
        with self._taken() as (session, _):
            assert isinstance(session, Streams)
            parts = session.stream(arrays)
            try:
                yield from parts
            finally:
                close = getattr(parts, "close", None)
                if close is not None:
                    close()

    @property
    def trouble(self) -> str:
        """Why none of them answers now; empty where one does."""
        troubles = [session.trouble if isinstance(session, Apart) else "" for session in self._all]
        return troubles[0] if troubles and all(troubles) else ""

    @contextmanager
    def _taken(self) -> Iterator[tuple[Session, Run]]:
        """Take a session that is free, one that is not down where there is such."""
        for _ in self._all:
            one = self._free.get()
            if not (isinstance(one[0], Apart) and one[0].trouble) or self._free.empty():
                break
            self._free.put(one)
        else:
            one = self._free.get()
        try:
            yield one
        finally:
            self._free.put(one)

    def close(self) -> None:
        """Let go of all; nothing may run any more."""
        self._shared = None
        while not self._free.empty():
            self._free.get()
        while self._all:
            self._all.pop().close()


def remembers(session: Session) -> bool:
    """Say whether a session's answers depend on the calls before; one that only could says so by ``remembers``."""
    return isinstance(session, Stateful) and bool(getattr(session, "remembers", True))


def _run(session: Session) -> Run:
    """Return how a session is run with arrays that fit already; one that remembers starts anew each time.

    What one client asked must not be heard in the answer to another.
    """
    run: Run = session.run_conformed if isinstance(session, BaseSession) else session.run
    if not remembers(session):
        return run
    assert isinstance(session, Stateful)

    def anew(arrays: Arrays) -> Arrays:
        session.reset()
        return run(arrays)

    return anew


def _said(parsed: Reference) -> tuple[str, str]:
    """Return the name and version that a reference says."""
    match parsed.kind:
        case "name":
            name, _, tag = parsed.value.partition(":")
            return name, _tag(tag)
        case "alias":
            return parsed.alias
        case "remote":
            return parsed.remote.repository, _tag(parsed.remote.tag or "")
        case "digest":
            return parsed.digest.hex[:12], FIRST
        case "path":
            path = Path(parsed.value)
            return (path.stem if path.suffix in {".tar", ".vit"} else path.name) or "model", FIRST


def _tag(tag: str) -> str:
    return tag if tag not in {"", DEFAULT_TAG} else FIRST


def _fetched(parsed: Reference, store: OciLayout, connect: Connect) -> tuple[Digest, str]:
    """Return what an alias leads to now, brought into the store, and the version's name in the registry."""
    from vitrify.registry.transfer import fetch

    registry = connect()
    try:
        name, alias = parsed.alias
        version = registry.version(name, f"@{alias}")
        digest = Digest.parse(version.digest)
        if not store.place(digest).exists():
            fetch(registry, store, digest, f"{name}:{version.version}")
        return digest, version.version
    finally:
        registry.close()
