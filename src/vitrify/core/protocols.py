"""The extension points: what a plugin has to answer, and nothing else.

They are protocols, not base classes, so that a plugin needs no import of ours; each has at most four methods
and a conformance suite in :mod:`vitrify.testing` that its author can run. Before adding a method here, find
out whether the catalog's row can say it as data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

from vitrify.core.errors import UntrustedCodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import numpy as np

    from vitrify.core.digest import Digest
    from vitrify.core.document import Document
    from vitrify.core.graph import Graph
    from vitrify.core.manifest import Descriptor, FileKind, Manifest
    from vitrify.core.plan import Step
    from vitrify.core.report import Finding, Report
    from vitrify.core.signature import Field, Signature

Arrays = dict[str, "np.ndarray[Any, Any]"]
"""Named arrays: what every session takes and gives. Missing text is None or NaN in an object array; missing
integers and booleans are a ``numpy.ma.MaskedArray``."""


class Files(Protocol):
    """The files of an artifact, each checked against its digest before the first byte is handed out."""

    def names(self) -> tuple[str, ...]:
        """Return the paths inside the artifact, sorted."""

    def read(self, name: str) -> bytes:
        """Return one file's bytes."""

    def map(self, name: str) -> memoryview:
        """Return one file's bytes, read-only and memory-mapped: nothing is copied."""

    def path(self, name: str) -> Path:
        """Return where one file lies. Its name there is not ``name``, and no other file lies beside it."""


class Sink(Protocol):
    """Where a format or a transform writes its files. Nothing is seen by anyone before it is committed."""

    def open(self, name: str, kind: FileKind) -> AbstractContextManager[BinaryIO]:
        """Write one file as a stream; it is hashed while it is written."""

    def path(self, name: str, kind: FileKind) -> AbstractContextManager[Path]:
        """Yield a path for a library that writes files itself; it is hashed when the block ends."""


class Stage(Sink, Protocol):
    """A sink in a store, whose files become an artifact when it is committed. Use it in a ``with`` block."""

    def files(self) -> Files:
        """Return what was written so far."""

    def commit(self, build: Callable[[tuple[Descriptor, ...]], tuple[Manifest, bytes]], name: str | None) -> Digest:
        """Make it durable and visible, all or nothing.

        Args:
            build: From the files' descriptors (with their paths as annotations) to the manifest and the bytes
                of its configuration blob.
            name: The name to give, replacing what had it; None for none.
        """


class Store(Protocol):
    """Bytes by digest, committed whole or not at all."""

    def stage(self) -> AbstractContextManager[Stage]:
        """Return a new stage; leaving the block without a commit leaves nothing behind."""

    def blob(self, digest: Digest) -> Path:
        """Return a local file whose content was verified against ``digest``."""

    def digests(self) -> Iterator[Digest]:
        """Yield the digest of every blob."""

    def remove(self, digest: Digest) -> None:
        """Delete one blob; deleting what is not there is no error."""


class Names(Protocol):
    """Names for manifests. One name leads to one manifest; setting it again moves it."""

    def get(self, name: str) -> Descriptor:
        """Return what a name leads to, or raise ReferenceNotFoundError."""

    def set(self, name: str, target: Descriptor) -> None:
        """Give a name."""

    def unset(self, name: str) -> None:
        """Take a name away; the manifest stays until garbage is collected."""

    def all(self) -> dict[str, Descriptor]:
        """Return every name."""


@dataclass(frozen=True)
class Allow:
    """What the user has decided to trust: exact dotted names, each a class or function.

    There is no "everything": a name that is not here is refused, and the error lists it.
    """

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Collection[str]) -> Allow:
        """Return an allow-list of these names."""
        return cls(frozenset(names))

    def require(self, names: Collection[str], *, what: str) -> None:
        """Refuse unless every name is allowed.

        Raises:
            UntrustedCodeError: At least one is not; all such names are listed.
        """
        if missing := sorted(set(names) - self.names):
            listed = ", ".join(missing)
            msg = f"{what} would run code that nobody allowed: {listed}"
            raise UntrustedCodeError(
                msg,
                names=missing,
                remedy=f"read that code, then allow it by its exact name: allow={missing!r}, or --allow NAME",
            )


@dataclass(frozen=True)
class Written:
    """What a format or a transform says about the files that it wrote.

    Attributes:
        entry: What its reader and its runtime need to know, as JSON.
        names: Exact dotted names of code outside the built-in allow-list that reading will use.
        notes: What a person should know ("the model was set to eval mode").
    """

    entry: dict[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Container(Protocol):
    """What data comes in: a frame, an array, a tensor, records. From it to named arrays, and back."""

    def fields(self, example: Any) -> tuple[Field, ...]:
        """Return the input fields that an example shows.

        Raises:
            SignatureError: The example is empty, or holds something that no array can.
        """

    def to_arrays(self, data: Any, fields: tuple[Field, ...]) -> Arrays:
        """Return the data by field name, as it is: matching and casting come after.

        Extra columns are kept; missing ones are left out. Fields only tell what a name or position means.
        """

    def from_arrays(self, arrays: Arrays, fields: tuple[Field, ...]) -> Any:
        """Return what the model is called with."""


class Format(Protocol):
    """One file format: is this yours, what is in it, could it hurt. It never runs what is in a file.

    ``files`` are one file, called as whoever made it liked, or a directory; ``entry`` is what the writer remembered,
    for a stranger's file ``{"file": its name}`` and for a directory empty. Nothing here needs the library that makes
    such files to be installed.
    """

    def detect(self, files: Files) -> bool:
        """Say whether this is of this format, by its content, at the cost of a look; it raises nothing."""

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the files say about themselves, as JSON; :mod:`vitrify.formats` names the keys.

        Raises:
            MalformedError: They are not of this format, or cut off.
        """

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what could run code, reach out of the file or break a reader, and what could not be checked.

        Raises:
            MalformedError: They are not of this format, or cut off: that is a finding too.
        """


@runtime_checkable
class Live(Format, Protocol):
    """A format that is written from a live model and read into one."""

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a live model.

        Raises:
            UnsupportedModelError: It holds something that this format cannot keep; everything is listed.
        """

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the live model.

        Raises:
            UntrustedCodeError: It needs a name that ``allow`` does not hold.
            MalformedError: The files are not of this format.
        """


@runtime_checkable
class Drawn(Protocol):
    """A format that holds a graph of operators."""

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the graph as a value, for drawing; no tensor's data is read."""


@runtime_checkable
class Holds(Protocol):
    """A format that holds other files, which have to be looked at one by one."""

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the place and the bytes of each part that ``hazards`` does not itself answer for."""


@dataclass(frozen=True)
class Example:
    """The user's example in both forms.

    Attributes:
        native: What the model itself is called with.
        arrays: The same by input name.
        signature: The inputs (outputs are not yet known when a format writes).
    """

    native: Any
    arrays: Arrays
    signature: Signature


@runtime_checkable
class Session(Protocol):
    """An open model: names in, arrays out."""

    signature: Signature

    def run(self, inputs: Arrays) -> Arrays:
        """Predict.

        An input of zero rows gives outputs of zero rows; no session asks the model in that case.

        Raises:
            SignatureError: The arrays do not fit the signature.
            ModelError: The model raised.
        """

    def predict(self, data: Any) -> Arrays:
        """Predict from any container that the signature can be matched with: frames, arrays, tensors, records."""

    def close(self) -> None:
        """Let go of the model."""


@runtime_checkable
class Stateful(Protocol):
    """A session whose answers depend on the calls before, until it is told to forget."""

    def reset(self) -> None:
        """Forget what earlier calls left behind."""


@runtime_checkable
class Picks(Protocol):
    """A session of a model that may pick among equally good things by no rule of its own."""

    def picking_first(self) -> Session | None:
        """Return a session of the same model that picks the first of equals; None if it never has to pick."""


@runtime_checkable
class Streams(Protocol):
    """A session that can give its answer in parts, as it makes them."""

    def stream(self, inputs: Arrays) -> Iterator[Arrays]:
        """Yield the parts of one answer; ``inputs`` as for :meth:`Session.run`, which gives the last of them.

        Closing the iterator ends the work.

        Raises:
            SignatureError: The arrays do not fit the signature.
            ModelError: The model raised.
        """


class Runtime(Protocol):
    """Something that can predict."""

    def open(self, files: Files, document: Document, allow: Allow) -> Session:
        """Open an artifact's files."""

    def wrap(self, model: Any, document: Document) -> Session:
        """Return a session over a live model, as it would be opened; where that is impossible, raise UsageError."""

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return what the runtime must remember about a live model in the document's ``entry``: how to call it.

        The keys must not clash with the format's; they start with ``call_``.

        Raises:
            ModelError: The model was never fitted.
        """

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return the output fields: element types and shapes from arrays that the model gave, class labels from it."""


@dataclass(frozen=True)
class Subject:
    """What a transform or a check works on: an artifact, committed or not yet.

    Attributes:
        files: Its files.
        document: What they mean.
        golden: Its golden inputs; more samples may have been added by the user.
        allow: What the user trusts while it is opened.
        native: The live model, where the caller has it at hand; else it is read from the files.
    """

    files: Files
    document: Document
    golden: Arrays
    allow: Allow = Allow()
    native: Any = None


@runtime_checkable
class Companions(Protocol):
    """A format whose graph, named alone, may have its weights in files beside it."""

    def beside(self, files: Files, entry: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the paths of those files from the graph's own folder, none of which leaves it."""


@runtime_checkable
class Declares(Protocol):
    """A runtime whose models say themselves what they take and give, so that no example is needed."""

    def signature(self, model: Any) -> Signature:
        """Return what the model declares, for a session that is called with a dict of arrays by name."""


class Transform(Protocol):
    """One step from an artifact to another."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List everything that this step cannot do with this model, before any work; empty means it can."""

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the target's files."""


class Check(Protocol):
    """A question about one artifact, or about two."""

    def run(self, subject: Subject, reference: Subject | None) -> Report:
        """Answer it. A check that gates compares ``subject`` with the ``reference`` it was made from."""
