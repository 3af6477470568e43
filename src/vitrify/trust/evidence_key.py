"""The key of this process: whatever is found out here about an artifact is signed with it while it is written.

A build service sets ``VITRIFY_EVIDENCE_KEY`` to a key, as ``vitrify sign --key`` takes it (a name, a path or
``scheme:rest``), and ``VITRIFY_PASSPHRASE`` where it needs one. Its scans, trials, parity reports and provenance then
count where a policy counts its key.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vitrify.core.errors import AuthenticationError

if TYPE_CHECKING:
    from vitrify.trust.keys import Signer

VARIABLE = "VITRIFY_EVIDENCE_KEY"
_PASSPHRASE = "VITRIFY_PASSPHRASE"  # noqa: S105 (the variable's name)


def evidence_signer() -> Signer | None:
    """Return the key that this process signs evidence with, or None where it has none.

    Raises:
        ReferenceNotFoundError: There is no such key.
        AuthenticationError: Its passphrase is wrong, or there is none and it needs one.
        VitrifyError: It is no key to sign with; see :meth:`vitrify.trust.keyring.Keyring.signer`.
    """
    reference = os.environ.get(VARIABLE)
    if not reference:
        return None
    from vitrify.trust.keyring import Keyring

    return Keyring().signer(reference, passphrase=_passphrase)


def _passphrase() -> str:
    if found := os.environ.get(_PASSPHRASE):
        return found
    msg = f"the key in {VARIABLE} needs a passphrase, and {_PASSPHRASE} is not set"
    raise AuthenticationError(msg, remedy=f"set {_PASSPHRASE}")
