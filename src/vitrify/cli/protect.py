"""``vitrify protect``: encrypt for somebody, names that say nothing, a mark that says whose copy it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vitrify.cli._options import REFERENCE, allow_option, common, json_option, open_store

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact

_FILE = click.Path(dir_okay=False, path_type=Path)
_key_option = click.option("--key", "key_file", type=_FILE, required=True, help="The file of your protection key.")
_name_option = click.option("--name", help="The result's name; by default the source's with what was done behind it.")
_samples_option = click.option("--samples", metavar="DATA", help="Rows to compare on instead of the golden samples.")


@click.group("protect")
def command() -> None:
    """Encrypt an artifact, take the names out of it, or mark its weights."""


@command.command("keygen")
@click.argument("file", type=_FILE)
@click.option("--secret", is_flag=True, help="Make a key for obfuscate and watermark, instead of one to decrypt with.")
@json_option
def keygen(file: Path, secret: bool, as_json: bool) -> None:
    """Make a private key that only you may read, and say what others need of it."""
    from vitrify.cli._render import show_facts, show_json

    if secret:
        from vitrify.transforms.protect.key import ProtectKey

        facts = {"key": ProtectKey.generate(file).id, "file": str(file)}
    else:
        from vitrify.trust.encryption import X25519Recipient, generate, public_text

        public = X25519Recipient(generate(file).private.public_key())
        facts = {"recipient": public_text(public), "file": str(file)}
    if as_json:
        show_json(facts)
    else:
        show_facts(facts.items())


@command.command("encrypt")
@click.argument("reference", type=REFERENCE)
@click.option("--to", "to", multiple=True, metavar="RECIPIENT", help="x25519:... or the file of a public key; repeat.")
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase that opens it, too.")
@click.option("--all", "everything", is_flag=True, help="Every file but vitrify.json: golden samples and code, too.")
@_name_option
@common
def encrypt_command(
    reference: str,
    to: tuple[str, ...],
    passphrase: bool,
    everything: bool,
    name: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Encrypt an artifact's weights for recipients; it is decrypted in memory only, when it is loaded.

    Whoever loads it names the file of their key: VITRIFY_IDENTITY=FILE.
    """
    from vitrify.artifacts.encrypt import encrypt
    from vitrify.cli._render import progress_bars
    from vitrify.trust.encryption import Passphrase, Recipient, recipient

    recipients: list[Recipient] = [recipient(text) for text in to]
    if passphrase:
        recipients.append(Passphrase(click.prompt("Passphrase", hide_input=True, confirmation_prompt=True, err=True)))
    with progress_bars():
        result = encrypt(reference, recipients, name=name, everything=everything, store=open_store(store))
    _show(result, as_json=as_json)


@command.command("decrypt")
@click.argument("reference", type=REFERENCE)
@click.option("--identity", type=_FILE, help="The file of your private key.  [env: VITRIFY_IDENTITY]")
@click.option("--name", required=True, help="The result's name.")
@common
def decrypt_command(reference: str, identity: Path | None, name: str, store: str | None, as_json: bool) -> None:
    """Write an encrypted artifact back as it was, for all to read: the same digest. Loading it needs no such copy."""
    from vitrify.artifacts.encrypt import decrypt
    from vitrify.cli._render import progress_bars

    with progress_bars():
        result = decrypt(reference, identity=identity, name=name, store=open_store(store))
    _show(result, as_json=as_json)


@command.command("obfuscate")
@click.argument("reference", type=REFERENCE)
@_key_option
@_name_option
@click.option("--inputs", is_flag=True, help="Rename inputs and outputs in the graph, too; the signature keeps them.")
@click.option("--names", "names_file", type=_FILE, help="Write which new name was which: keep it as the key is kept.")
@_samples_option
@allow_option
@common
def obfuscate_command(
    reference: str,
    key_file: Path,
    name: str | None,
    inputs: bool,
    names_file: Path | None,
    samples: str | None,
    allow: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Replace every name in an ONNX graph, and prove that it predicts the same to the bit."""
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars
    from vitrify.transforms.protect import ProtectKey, mapping, obfuscate
    from vitrify.trust._private_file import create

    key, where = ProtectKey.read(key_file), open_store(store)
    given = _data.read(samples) if samples else None
    if names_file:
        names = mapping(reference, key, inputs=inputs, store=where)
        create(names_file, json.dumps(names, indent=2, ensure_ascii=False).encode(), mode=0o600)
    with progress_bars():
        result = obfuscate(reference, key, name=name, inputs=inputs, samples=given, allow=allow, store=where)
    _show(result, as_json=as_json)


@command.group("watermark")
def watermark() -> None:
    """Mark weights with an id, and find it again."""


@watermark.command("embed")
@click.argument("reference", type=REFERENCE)
@_key_option
@click.option("--id", "id_", required=True, help="Whose copy it is: at most 8 characters, or 0x and 16 hex digits.")
@click.option("--strength", type=click.IntRange(1, 5), default=1, show_default=True, help="5 survives bfloat16.")
@click.option(
    "--fidelity", type=float, default=0.01, show_default=True, help="How far predictions may move, relatively."
)
@_name_option
@_samples_option
@allow_option
@common
def embed_command(
    reference: str,
    key_file: Path,
    id_: str,
    samples: str | None,
    store: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write an id into the lowest digits of the weights, and prove that the predictions hardly move."""
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars
    from vitrify.transforms.protect import ProtectKey, embed

    given = _data.read(samples) if samples else None
    key = ProtectKey.read(key_file)
    with progress_bars():
        result = embed(reference, key, id_, samples=given, store=open_store(store), **options)
    _show(result, as_json=as_json)


@watermark.command("detect")
@click.argument("reference", type=REFERENCE)
@_key_option
@click.option("--id", "id_", help="The id that is expected: a weaker mark is then enough.")
@allow_option
@common
def detect_command(
    reference: str, key_file: Path, id_: str | None, allow: tuple[str, ...], store: str | None, as_json: bool
) -> None:
    """Say whether an artifact or a file of weights carries a mark of your key; leave with 11 where it does not."""
    from vitrify.cli._render import progress_bars, show_facts, show_json
    from vitrify.cli._subject import find
    from vitrify.transforms.protect import ProtectKey, detect

    key = ProtectKey.read(key_file)
    with progress_bars():
        found = detect(find(reference, store), key, id=id_, allow=allow)
    facts = {"present": found.present, "id": found.id, "log10_p": found.log10_p}
    facts |= {"strength": found.strength, "weights": found.weights}
    if as_json:
        show_json(facts)
    else:
        chance = f"1e{found.log10_p:.0f}" if found.log10_p < 0 else "1"
        shown = [("mark", f"found: {found.id}" if found.present else "none"), ("p-value", f"at most {chance}")]
        show_facts([*shown, ("weights", f"{found.weights:,} looked at")])
    sys.exit(0 if found.present else 11)


def _show(artifact: Artifact, *, as_json: bool) -> None:
    from vitrify.cli._render import artifact_json, show_facts, show_json, size

    if as_json:
        show_json(artifact_json(artifact))
        return
    lineage = artifact.document.lineage or {}
    sealed = artifact.sealed
    facts = [
        ("sealed", artifact.name or ""),
        ("digest", artifact.digest),
        ("format", f"{artifact.document.format}, {len(artifact.manifest.files)} files, {size(artifact.size)}"),
        ("from", lineage.get("source", "")),
        *(("for", str(stanza)) for stanza in (sealed.envelope.recipients if sealed else ())),
    ]
    show_facts(fact for fact in facts if fact[1])
