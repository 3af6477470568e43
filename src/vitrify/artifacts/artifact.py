"""Artifact: a manifest in a store; opening it verifies it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts import code, golden
from vitrify.artifacts.permit import permit
from vitrify.core.catalog import catalog
from vitrify.core.document import DOCUMENT, SCHEMA, Document
from vitrify.core.envelope import read_statement
from vitrify.core.errors import DeniedError, UsageError
from vitrify.core.manifest import INDEX_TYPE
from vitrify.core.protocols import Allow, Subject
from vitrify.core.reference import parse
from vitrify.trust.encryption.files import SealedFiles, is_encrypted

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Self

    from vitrify.core.attestation import Attestation
    from vitrify.core.digest import Digest
    from vitrify.core.manifest import Manifest
    from vitrify.core.protocols import Arrays, Session
    from vitrify.core.signature import Signature
    from vitrify.stores import ArtifactFiles
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust.encryption.recipients import Identity

_IN_MEMORY = frozenset(
    {"catboost", "jax-export", "lightgbm", "onnx", "ort", "pfa", "safetensors", "skops", "statsmodels"}
    | {"torch-export", "torchscript", "xgboost"}
)
"""Formats whose libraries were seen to open a model without writing a byte of it to a disk."""

_RESOLVERS = {"remote": "oci", "alias": "registry"}
"""Who fetches an artifact into the store for a reference that leads out of it."""


@dataclass(frozen=True)
class Artifact:
    """A sealed model. Two artifacts with the same digest are the same, wherever they lie.

    Attributes:
        digest: Its identity: the SHA-256 of its manifest.
        name: The name it was opened by, or None.
        manifest: Its files, each with digest and size.
        files: Their verified bytes.
        store: Where it lies.
    """

    digest: Digest
    name: str | None
    manifest: Manifest
    files: ArtifactFiles
    store: OciLayout

    @classmethod
    def of(
        cls, store: OciLayout, digest: Digest, name: str | None, *, identity: str | Path | Identity | None = None
    ) -> Self:
        """Return an artifact whose manifest is verified now, and each file when it is first read.

        If files of it are encrypted, they are decrypted in memory for ``identity``, or what ``VITRIFY_IDENTITY`` names.
        """
        manifest = stores.read_manifest(store, digest)
        sealed = is_encrypted(manifest)
        files = SealedFiles(store, manifest, identity) if sealed else stores.ArtifactFiles(store, manifest)
        return cls(digest, name, manifest, files, store)

    @cached_property
    def document(self) -> Document:
        """What the files mean.

        Raises:
            UsageError: The artifact is no Vitrify artifact, or a newer Vitrify wrote it.
        """
        document = Document.from_json(self.files.read(DOCUMENT), where=DOCUMENT)
        if document.schema > SCHEMA:
            msg = f"this artifact has document version {document.schema}; this Vitrify reads up to {SCHEMA}"
            raise UsageError(msg, remedy="pip install --upgrade vitrify")
        return document

    @property
    def signature(self) -> Signature:
        """The inputs and outputs.

        Raises:
            UsageError: It holds bare weights, which have none.
        """
        if self.document.signature is None:
            why = "".join(f"; {note}" for note in self.document.notes[:1])  # what sealed it says it first
            msg = f"{self} holds {self.document.format} weights and no signature, so it cannot predict{why}"
            raise UsageError(msg, remedy="read the weights themselves: vitrify.open(...).model()")
        return self.document.signature

    @property
    def sealed(self) -> SealedFiles | None:
        """Its files where some are encrypted, else None."""
        return self.files if isinstance(self.files, SealedFiles) else None

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(layer.size for layer in self.manifest.layers)

    @property
    def attestations(self) -> tuple[Attestation, ...]:
        """The statements about it in the store; who signed them, :func:`vitrify.trust.evidence.gather` says."""
        found = stores.attestations(self.store, self.digest)
        return tuple(read_statement(data, where="attestation")[0] for data in found)

    def golden(self) -> tuple[Arrays, Arrays]:
        """Return the golden inputs and outputs by name; both are empty where there are none."""
        return golden.load(self.files)

    def model(self, *, allow: Collection[str] = ()) -> Any:
        """Return the live object that was saved, as its own library has it.

        Args:
            allow: Exact dotted names of the code outside the built-in allow-list that may run.

        Raises:
            DeniedError: The policy of this machine does not allow it.
            UntrustedCodeError: It needs a name that is not in ``allow``.
        """
        allowed = self._admit(allow)
        return catalog().load("format", self.document.format).read(self.files, self.document.entry, allowed)

    def session(self, *, runtime: str | None = None, allow: Collection[str] = ()) -> Session:
        """Return a session that predicts.

        Args:
            runtime: Catalog name; by default the artifact's own.
            allow: As for :meth:`model`.

        Raises:
            UsageError: It has no signature, or nothing here or not that runtime opens its format.
            DeniedError: The policy of this machine does not allow it.
            UntrustedCodeError: It needs a name that is not in ``allow``.
        """
        _ = self.signature  # bare weights are refused here
        if runtime is None and self.document.runtime is None:
            msg = f"no runtime here opens {self.document.format}: it cannot predict on this machine"
            raise UsageError(msg, remedy="predict where it runs, or with the model that it was converted from")
        row = catalog().row("runtime", runtime or str(self.document.runtime))
        if self.document.format not in row.formats:
            msg = f"runtime {row.name!r} opens {', '.join(row.formats)}, not {self.document.format}"
            raise UsageError(msg, remedy="leave the runtime out, or convert the artifact first")
        allowed = self._admit(allow)  # before the runtime's library is imported
        session: Session = row.load().open(self.files, self.document, allowed)
        return session

    def subject(self, *, allow: Collection[str] = ()) -> Subject:
        """Return what transforms and checks work on."""
        return Subject(self.files, self.document, self.golden()[0], self._admit(allow))

    def _admit(self, allow: Collection[str]) -> Allow:
        """Ask the policy, check that all code it needs is allowed, and make its bundled modules importable.

        What is encrypted is unlocked here, before anything of it is looked at.
        """
        permit(self)
        if self.sealed:
            if self.document.format not in _IN_MEMORY:
                msg = f"{self} is encrypted, and the library of {self.document.format} may write the model to a disk"
                remedy = f"encrypt it in a format that is opened in memory: {', '.join(sorted(_IN_MEMORY))}"
                raise DeniedError(msg, remedy=remedy)
            self.sealed.unlock()
        allowed = Allow.of(allow)
        allowed.require(self.document.code.names, what=f"loading {self}")
        code.install(self.document.code, self.files)
        return allowed

    def __str__(self) -> str:
        """Return the name and the short digest."""
        return f"{self.name} ({self.digest.short})" if self.name else self.digest.short

    def _repr_html_(self) -> str:
        rows = {"digest": str(self.digest), "format": self.document.format, "files": len(self.manifest.files)}
        rows |= {"size": f"{self.size:,} bytes", "golden samples": self.document.golden}
        cells = "".join(f"<tr><th>{escape(key)}</th><td>{escape(str(value))}</td></tr>" for key, value in rows.items())
        signature = self.document.signature
        shown = signature._repr_html_() if signature else ""
        return f"<div><strong>{escape(self.name or self.digest.short)}</strong><table>{cells}</table>{shown}</div>"


def open_artifact(
    reference: str, *, store: OciLayout | None = None, identity: str | Path | Identity | None = None
) -> Artifact:
    """Open an artifact and verify every byte of it.

    Args:
        reference: ``name``, ``name:tag``, ``sha256:...``, ``name@alias`` of the registry, ``oci://host/name:tag``
            (both are fetched into the store), or the path of an exported archive (which is taken into the store) or
            of a layout directory that holds one named artifact.
        store: Where to look; by default the user's store.
        identity: Who opens it, where it is encrypted: the file of a private key, or an object that unwraps; by
            default what ``VITRIFY_IDENTITY`` names, which is asked when the artifact is loaded, verified or scanned.

    Raises:
        ReferenceNotFoundError: There is no such artifact.
        UsageError: A directory holds several.
        CorruptError: A byte is not what its digest promises; the message names the file.
    """
    parsed = parse(reference)
    where = store or stores.default_store()
    if parsed.kind == "path":
        where, name, digest = _open_path(Path(parsed.value).expanduser(), where)
    elif parsed.kind in _RESOLVERS:
        name = parsed.known_as
        digest = catalog().load("resolver", _RESOLVERS[parsed.kind]).fetch(parsed, where)
    else:
        name = parsed.value if parsed.kind == "name" else None
        digest = where.names.get(parsed.value).content if name else parsed.digest
    with where.kept():
        artifact = Artifact.of(where, digest, name, identity=identity)
        artifact.files.verify()
    return artifact


def list_artifacts(store: OciLayout | None = None) -> list[Artifact]:
    """Return every artifact that has a name, in the order of the names; each file is verified when it is read.

    An index of several is not among them.

    Args:
        store: Where to look; by default the user's store.
    """
    where = store or stores.default_store()
    named = {name: target for name, target in where.names.all().items() if target.media_type != INDEX_TYPE}
    return [Artifact.of(where, target.content, name) for name, target in sorted(named.items())]


def _open_path(path: Path, store: OciLayout) -> tuple[OciLayout, str | None, Digest]:
    if not path.is_dir():
        return store, None, stores.import_(store, path)
    layout = stores.open_store(path)
    names = layout.names.all()
    if len(names) != 1:
        msg = f"{path} holds {len(names)} named artifacts, not one: {', '.join(sorted(names)) or 'none'}"
        raise UsageError(msg, remedy=f"open one by its name, with the store at {path}")
    ((name, target),) = names.items()
    return layout, name, target.content
