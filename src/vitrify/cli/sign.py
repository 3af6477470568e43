"""``vitrify sign``: vouch for an artifact, or for a directory of model files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vitrify.cli._keys import directory, instance_option, key_option, passphrase, passphrase_option
from vitrify.cli._options import REFERENCE, common, open_store

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

_MAX_TOKEN_BYTES = 64 * 1024


@click.command("sign")
@click.argument("reference", type=REFERENCE)
@key_option(required=False)
@passphrase_option
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    help="Sign by identity (Sigstore) instead of with a key: a file with an OpenID Connect token for it.",
)
@instance_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Write an OpenSSF model signature; of a directory: model.sig.",
)
@click.option("--claim", "claims", multiple=True, metavar="NAME=TEXT", help="Said with the signature; repeat for more.")
@common
def command(
    reference: str,
    key: str | None,
    passphrase_file: str | None,
    token_file: str | None,
    sigstore: str | None,
    output: str | None,
    claims: tuple[str, ...],
    store: str | None,
    as_json: bool,
) -> None:
    """Sign an artifact, whose signature is kept beside it, or a directory (./model), into a file.

    With -o, the artifact's files are signed as a directory's are: export it, and whoever has the OpenSSF model-signing
    tool can verify the files. Such signatures are by ecdsa-p256 keys, or by identities.
    """
    from pathlib import Path

    from vitrify.artifacts import open_artifact
    from vitrify.cli._render import show_facts, show_json
    from vitrify.core.errors import UsageError
    from vitrify.trust.model_signing import SIGNATURE_FILE

    folder = directory(reference)
    file = Path(output) if output else folder / SIGNATURE_FILE if folder else None
    if bool(key) == bool(token_file):
        raise UsageError("who signs: a key or an identity", remedy="--key KEY, or --token-file FILE")
    if claims and file:
        raise UsageError("an OpenSSF model signature has no claims", remedy="leave --claim out, or -o")
    if sigstore and not token_file:
        raise UsageError("--sigstore is for --token-file", remedy="leave it out")
    subject = folder or open_artifact(reference, store=open_store(store))
    if token_file:
        facts = _by_identity(subject, token_file, sigstore, file)
    else:
        facts = _with_key(subject, str(key), passphrase_file, file, _claims(claims))
    what = {"directory": str(subject)} if isinstance(subject, Path) else {"artifact": str(subject.digest)}
    facts = {**what, **facts, **({"file": str(file)} if file else {})}
    show_json(facts) if as_json else show_facts(facts.items())


def _with_key(
    subject: Path | Artifact, key: str, passphrase_file: str | None, file: Path | None, claims: dict[str, str]
) -> dict[str, str]:
    from pathlib import Path

    from vitrify.trust import model_signing, signing
    from vitrify.trust._private_file import replace
    from vitrify.trust.keyring import Keyring

    signer = Keyring().signer(key, passphrase=passphrase(passphrase_file))
    facts = {"keyid": signer.keyid, "algorithm": signer.algorithm}
    if isinstance(subject, Path):
        assert file is not None  # a directory's signature is always a file
        model_signing.sign_directory(subject, signer, file)
    elif file:
        replace(file, model_signing.sign_artifact(subject.store, subject.digest, signer, name=_name(subject)))
    else:
        facts["signature"] = str(signing.sign(subject.store, subject.digest, signer, claims=claims))
    return facts


def _by_identity(
    subject: Path | Artifact, token_file: str, configuration: str | None, file: Path | None
) -> dict[str, str]:
    from pathlib import Path

    from vitrify.core.errors import UsageError
    from vitrify.trust import sigstore
    from vitrify.trust._private_file import read_small, replace

    if file is None:
        msg = "a signature by identity is written into a file, and none is named"
        raise UsageError(msg, remedy="name it: -o FILE")
    token = read_small(Path(token_file), _MAX_TOKEN_BYTES).decode(errors="replace").strip()
    instance = sigstore.Instance(configuration)
    if isinstance(subject, Path):
        return {"identity": sigstore.sign_directory(subject, token, file, instance=instance)}
    store, digest = subject.store, subject.digest
    data, identity = sigstore.sign_artifact(store, digest, token, name=_name(subject), instance=instance)
    replace(file, data)
    return {"identity": identity}


def _name(artifact: Artifact) -> str:
    return (artifact.name or "model").partition(":")[0]


def _claims(texts: tuple[str, ...]) -> dict[str, str]:
    from vitrify.core.errors import UsageError

    pairs = [text.partition("=") for text in texts]
    if bad := [name or "=" for name, equals, _ in pairs if not (name and equals)]:
        msg = f"not a claim: {bad[0]!r} (expected NAME=TEXT)"
        raise UsageError(msg, remedy="for example: --claim ticket=ML-42")
    claims = {name: value for name, _, value in pairs}
    if len(claims) != len(pairs):
        raise UsageError("one claim twice", remedy="give each name once")
    return claims
