"""What commands share that sign or verify: keys, passphrases, and whether a directory is meant."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_VARIABLE = "VITRIFY_PASSPHRASE"
_MAX_BYTES = 4096

passphrase_option = click.option(
    "--passphrase-file",
    type=click.Path(dir_okay=False),
    help=f"The passphrase is this file's first line; without it, ${_VARIABLE}, or a prompt.",
)


def key_option(*, required: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return ``--key``: a private key, by name or path."""
    return click.option(
        "--key", required=required, metavar="KEY", help="A key's name (vitrify keys), its path, or scheme:rest."
    )


def instance_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--sigstore``: an instance of one's own."""
    return click.option(
        "--sigstore",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Client trust configuration of a Sigstore instance of your own; default: the public one.",
    )(command)


def passphrase(file: str | None, *, confirm: bool = False) -> Callable[[], str]:
    """Return what finds the passphrase when one is needed: a file, the environment, or a question.

    Args:
        file: What ``--passphrase-file`` names.
        confirm: Whether a question is asked twice, for a passphrase that is new.
    """

    def ask() -> str:
        from pathlib import Path

        from vitrify.core.errors import AuthenticationError, MalformedError
        from vitrify.trust._private_file import read_small

        if file:
            try:
                return read_small(Path(file), _MAX_BYTES).decode().split("\n", 1)[0].removesuffix("\r")
            except UnicodeDecodeError as error:
                msg = f"{file} is no text in UTF-8"
                raise MalformedError(msg) from error
        if _VARIABLE in os.environ:
            return os.environ[_VARIABLE]
        if _is_terminal():
            answer: str = click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
            return answer
        msg = "the key needs a passphrase, and nobody is there to ask"
        without = "; or make it with --unencrypted" if confirm else ""
        raise AuthenticationError(msg, remedy=f"--passphrase-file FILE, or set {_VARIABLE}{without}")

    return ask


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def directory(reference: str) -> Path | None:
    """Return the directory that a reference names, with a slash as paths of artifacts have one; None for an artifact.

    An OCI layout is no directory of model files.
    """
    from pathlib import Path

    if reference not in {".", ".."} and not reference.startswith(("/", "./", "../", "~")):
        return None
    path = Path(reference).expanduser()
    return path if path.is_dir() and not (path / "oci-layout").is_file() else None
