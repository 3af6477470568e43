"""``vitrify attest``: say something about an artifact, signed."""

from __future__ import annotations

import click

from vitrify.cli._keys import key_option, passphrase, passphrase_option
from vitrify.cli._options import REFERENCE, common, open_store

_MAX_BYTES = 16 * 1024 * 1024


@click.command("attest")
@click.argument("reference", type=REFERENCE)
@click.option(
    "--type", "predicate_type", required=True, metavar="URI", help="What kind of statement: urn:acme:review:v1"
)
@click.option("--predicate", required=True, type=click.Path(dir_okay=False), help="JSON file with what is said.")
@key_option(required=False)
@passphrase_option
@common
def command(
    reference: str,
    predicate_type: str,
    predicate: str,
    key: str | None,
    passphrase_file: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Keep a statement beside an artifact: an in-toto statement, signed (DSSE) where a key is given."""
    from pathlib import Path

    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import show_facts, show_json
    from vitrify.core.errors import MalformedError
    from vitrify.core.strict import strict_json
    from vitrify.trust import signing
    from vitrify.trust._private_file import read_small
    from vitrify.trust.keyring import Keyring

    said = strict_json(read_small(Path(predicate), _MAX_BYTES), where=predicate)
    if not isinstance(said, dict):
        msg = f"{predicate}: not a JSON object (expected {{...}})"
        raise MalformedError(msg)
    signer = Keyring().signer(key, passphrase=passphrase(passphrase_file)) if key else None
    artifact = open_artifact(reference, store=open_store(store))
    attestation = signing.attest(artifact.store, artifact.digest, predicate_type, said, signer)
    facts = {
        "artifact": str(artifact.digest),
        "attestation": str(attestation),
        "type": predicate_type,
        "keyid": signer.keyid if signer else "",
    }
    show_json(facts) if as_json else show_facts(facts.items())
