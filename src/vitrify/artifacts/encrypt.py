"""Encrypt and decrypt: from an artifact to one that only its recipients can open, and back to the very same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts import environment
from vitrify.artifacts.artifact import Artifact, open_artifact
from vitrify.artifacts.seal import attest
from vitrify.core import reference as references
from vitrify.core.attestation import SLSA
from vitrify.core.digest import Digest
from vitrify.core.document import DOCUMENT
from vitrify.core.errors import ForgedError, MalformedError, UnsupportedModelError, UsageError
from vitrify.core.manifest import MODEL_CONFIG_TYPE, Descriptor, Manifest, ModelConfig, layer_type
from vitrify.core.progress import track
from vitrify.core.wire import to_builtins
from vitrify.stores.files import read_document
from vitrify.trust import provenance
from vitrify.trust.encryption import ENCRYPTED, SOURCE, SUFFIX, Envelope, Source
from vitrify.trust.encryption.stream import CHUNK, KEY_BYTES, file_key, seal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vitrify.core.protocols import Stage
    from vitrify.stores.oci_layout import OciLayout
    from vitrify.trust.encryption import Identity, Recipient

_WEIGHT = layer_type("weight")


def encrypt(
    reference: str | Artifact,
    recipients: Sequence[Recipient],
    *,
    name: str | None = None,
    everything: bool = False,
    store: OciLayout | None = None,
) -> Artifact:
    """Encrypt an artifact's weights, so that only the recipients can open it; the artifact itself stays as it is.

    What stays readable without a key: the document (format, signature, environment), the names and sizes of the
    files and, unless ``everything`` is asked for, the golden samples and bundled code.

    Args:
        reference: What to encrypt.
        recipients: Who may open it, at least one.
        name: The result's name; by default the source's with ``-encrypted`` behind it.
        everything: Encrypt every file but the document.
        store: Where it lies and where the result goes; by default the user's store.

    Raises:
        UsageError: There are no recipients, or it is encrypted already.
        UnsupportedModelError: It has no weights, or was not written as Vitrify writes manifests.
        StoreError: The store could not take it; it is as it was.
    """
    where = store or stores.default_store()
    source = open_artifact(reference, store=where) if isinstance(reference, str) else reference
    _require_plain(source, recipients)
    tag = references.name(name) if name else _derived_name(source.name)
    key = os.urandom(KEY_BYTES)
    stanzas = tuple(recipient.wrap(key) for recipient in recipients)
    original = _original(source)
    chosen = _chosen(source, everything=everything)
    content = original.to_json()
    files = {path: source.manifest.files[path].size for path in chosen} | {SOURCE: len(content)}
    document = source.document.replace(
        encryption=to_builtins(Envelope.of(key, files, stanzas)),
        lineage=original.lineage(source.document.format),
    )
    with where.stage() as stage:
        _write_files(stage, source, chosen, key)
        _write_sealed(stage, SOURCE, memoryview(content), key)
        with stage.open(DOCUMENT, "weight.config") as stream:
            stream.write(document.to_json())
        about = ModelConfig.from_json(_config(source), where="configuration").descriptor
        digest = stage.commit(lambda layers: _manifest(layers, source.manifest, about, document.format), tag)
    said = {"recipients": [str(stanza) for stanza in stanzas], "files": sorted(chosen)}
    lineage = {**(document.lineage or {}), "encryption": said}
    made = provenance.slsa(environment.provenance(), kind=document.format, lineage=lineage)
    attest(where, digest, SLSA, made)
    return Artifact.of(where, digest, tag)


def decrypt(
    reference: str | Artifact,
    *,
    identity: str | Path | Identity | None = None,
    name: str | None = None,
    store: OciLayout | None = None,
) -> Artifact:
    """Write an encrypted artifact into the store as it was before: the same bytes, the same digest, for all to read.

    To predict, nothing needs to be decrypted so: ``load`` decrypts in memory.

    Args:
        reference: What to decrypt.
        identity: As for :func:`vitrify.open`.
        name: The result's name, or None.
        store: Where it lies and where the result goes; by default the user's store.

    Raises:
        UsageError: It is not encrypted.
        DeniedError: No identity that was given is a recipient.
        ForgedError: It is not what was encrypted.
    """
    where = store or stores.default_store()
    found = open_artifact(reference, store=where, identity=identity) if isinstance(reference, str) else reference
    if not found.sealed:
        msg = f"{found} is not encrypted"
        raise UsageError(msg)
    tag = references.name(name) if name else None
    found.sealed.unlock()
    source = found.sealed.source
    manifest = Manifest.from_json(source.manifest.encode(), where="the encrypted manifest")
    with where.stage() as stage:
        for path in manifest.files:
            with stage.open(path, "weight") as stream:
                stream.write(source.document.encode() if path == DOCUMENT else found.files.map(path))
        _require_same(stage, manifest)
        digest = stage.commit(lambda _: (manifest, source.config.encode()), tag)
    return Artifact.of(where, digest, tag)


def _require_plain(source: Artifact, recipients: Sequence[Recipient]) -> None:
    if source.sealed:
        msg = f"{source} is encrypted already, for {', '.join(map(str, source.sealed.envelope.recipients))}"
        raise UsageError(msg, remedy="encrypt the artifact that it was made from for all recipients at once")
    if not recipients:
        msg = "nobody could open what is encrypted for no recipient"
        raise UsageError(msg, remedy="name one: --to x25519:..., or make a key: vitrify protect keygen FILE")
    files = source.manifest.files
    taken = [path for path in files if path.endswith(SUFFIX) or path == SOURCE]
    if taken or len(files) != len(source.manifest.layers) or Digest.of(source.manifest.to_json()) != source.digest:
        problem = f"files called {', '.join(taken)}" if taken else "a manifest that Vitrify would write otherwise"
        msg = f"{source} has {problem}, so that it could not come back as it is"
        raise UnsupportedModelError(msg, remedy="save or pack the model again")


def _original(source: Artifact) -> Source:
    """Return what is needed to bring back the very same artifact."""
    try:
        texts = [part.decode() for part in (source.manifest.to_json(), _config(source), source.files.read(DOCUMENT))]
    except UnicodeDecodeError as error:
        msg = f"the configuration of {source} is not UTF-8"
        raise MalformedError(msg) from error
    return Source(manifest=texts[0], config=texts[1], document=texts[2])


def _config(source: Artifact) -> bytes:
    return read_document(source.store, source.manifest.config.content)


def _chosen(source: Artifact, *, everything: bool) -> tuple[str, ...]:
    files = source.manifest.files
    chosen = tuple(path for path in files if path != DOCUMENT and (everything or files[path].media_type == _WEIGHT))
    if not chosen:
        kinds = ", ".join(sorted({layer.media_type for layer in files.values()}))
        msg = f"{source} has no weights to encrypt (its files are: {kinds})"
        raise UnsupportedModelError(msg, remedy="encrypt every file: everything=True, or --all")
    return chosen


def _write_files(stage: Stage, source: Artifact, chosen: Sequence[str], key: bytes) -> None:
    with track("encrypting", len(source.manifest.files)) as bar:
        for path in source.manifest.files:
            if path in chosen:
                _write_sealed(stage, path, source.files.map(path), key)
            elif path != DOCUMENT:
                with stage.open(path, "weight") as stream:
                    stream.write(source.files.map(path))
            bar.advance()


def _write_sealed(stage: Stage, path: str, plain: memoryview, key: bytes) -> None:
    with stage.open(path + SUFFIX, "weight") as stream:
        for part in seal(plain, file_key(key, path), CHUNK):
            stream.write(part)


def _manifest(
    layers: tuple[Descriptor, ...], source: Manifest, about: Mapping[str, Any], format_: str
) -> tuple[Manifest, bytes]:
    """Return the manifest: each layer has its source's media type, and what is encrypted says so."""
    typed = []
    for layer in layers:
        path = layer.filepath or ""
        plain = path.removesuffix(SUFFIX)
        before = source.files[plain].media_type if plain in source.files else layer_type("weight.config")
        typed.append(layer.replace(media_type=before + ENCRYPTED if path != plain else before))
    config = ModelConfig.of(dict(about), {"format": format_}, tuple(typed)).to_json()
    descriptor = Descriptor(media_type=MODEL_CONFIG_TYPE, digest=str(Digest.of(config)), size=len(config))
    return Manifest.of_model(descriptor, tuple(typed), {}), config


def _require_same(stage: Stage, manifest: Manifest) -> None:
    """Hold what is about to be committed against the manifest, once more."""
    written = stage.files()
    wrong = [path for path, layer in manifest.files.items() if Digest.of(written.map(path)) != layer.content]
    if wrong:
        msg = f"decrypted to something else than what was encrypted: {', '.join(wrong)}"
        raise ForgedError(msg, remedy="get the artifact again from whoever encrypted it")


def _derived_name(name: str | None) -> str | None:
    if name is None:
        return None
    base, _, tag = name.partition(":")
    return f"{base}-encrypted:{tag}"
