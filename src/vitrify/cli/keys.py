"""``vitrify keys``: make keys, list them, show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._keys import passphrase, passphrase_option
from vitrify.cli._options import json_option

if TYPE_CHECKING:
    from vitrify.trust.keys import Algorithm


@click.group("keys")
def command() -> None:
    """Keys that artifacts are signed with: each has a name, in the directory keys beside the store."""


@command.command("generate")
@click.argument("name")
@click.option(
    "--algorithm",
    type=click.Choice(["ed25519", "ecdsa-p256"]),
    default="ed25519",
    show_default=True,
    help="ecdsa-p256 is what the OpenSSF model-signing tool verifies.",
)
@click.option("--unencrypted", is_flag=True, help="Without a passphrase: whoever reads the file may sign.")
@passphrase_option
@json_option
def generate(name: str, algorithm: Algorithm, unencrypted: bool, passphrase_file: str | None, as_json: bool) -> None:
    """Make a key pair. The private key is encrypted with a passphrase and readable by this user only."""
    from vitrify.cli._render import show_facts, show_json
    from vitrify.core.errors import UsageError
    from vitrify.trust.keyring import Keyring

    if unencrypted and passphrase_file:
        raise UsageError("--unencrypted and --passphrase-file contradict each other", remedy="leave one of them out")
    ring = Keyring()
    places = {"private": str(ring.private(name)), "public": str(ring.public(name))}
    secret = None if unencrypted else passphrase(passphrase_file, confirm=True)()
    public = ring.generate(name, algorithm, passphrase=secret, unencrypted=unencrypted)
    facts = {"name": name, "keyid": public.keyid, "algorithm": public.algorithm, **places}
    show_json(facts) if as_json else show_facts(facts.items())


@command.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the keys by name; a key whose private half is not here can only verify."""
    from vitrify.cli._render import show_json, show_table
    from vitrify.core.errors import VitrifyError
    from vitrify.trust.keyring import Keyring

    ring = Keyring()
    rows = []
    for name in ring.names():
        row = {"name": name, "algorithm": "", "keyid": "", "signs": ring.private(name).is_file(), "error": ""}
        try:
            public = ring.verifier(name)
            row |= {"algorithm": public.algorithm, "keyid": public.keyid}
        except VitrifyError as error:
            row["error"] = error.message
        rows.append(row)
    if as_json:
        show_json(rows)
    else:
        lines = [
            (row["name"], row["algorithm"], "yes" if row["signs"] else "no", row["keyid"] or row["error"])
            for row in rows
        ]
        show_table(("name", "algorithm", "signs", "key id"), lines)


@command.command("show")
@click.argument("key")
@json_option
def show(key: str, as_json: bool) -> None:
    """Show a public key: its id, its algorithm, and the PEM that others verify with."""
    from vitrify.cli._render import show_facts, show_json
    from vitrify.trust.keyring import Keyring

    public = Keyring().verifier(key)
    facts = {"keyid": public.keyid, "algorithm": public.algorithm}
    if as_json:
        show_json({**facts, "pem": public.pem.decode()})
        return
    show_facts(facts.items(), err=True)  # what is printed can be kept as the key's file
    click.echo(public.pem.decode(), nl=False)
