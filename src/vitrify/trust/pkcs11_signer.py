"""A signer in a hardware module, by PKCS #11: ``pkcs11:token=models;object=release?module-path=/usr/lib/....so``.

The module is its maker's code. It runs in a process of its own for each call: it may wait for ever or crash, it may
bear neither threads nor forks, and within one process a token that one user of it opened is open to all.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from vitrify.core import errors
from vitrify.core.errors import ReferenceNotFoundError, UnavailableError
from vitrify.trust._pkcs11_uri import KeyUri
from vitrify.trust._private_file import MAX_KEY_BYTES
from vitrify.trust._program import run
from vitrify.trust.keys import PublicKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.trust.keys import Algorithm


class Pkcs11Source:
    """See :class:`vitrify.trust.keyring.SignerSource`."""

    def open(self, rest: str, passphrase: Callable[[], str] | None) -> Pkcs11Signer:
        """Look for a key on a token; its PIN is asked for where something is to be signed.

        Raises:
            UsageError: The reference is no PKCS #11 URI that is taken here, several keys fit it, or the key is of
                another algorithm.
            ReferenceNotFoundError: There is no such module, token or key.
            AuthenticationError: There is no PIN, or a wrong one.
            UnavailableError: The module failed, or took too long.
        """
        key = KeyUri.parse(rest)
        seen = _call(key)
        pin = None
        if seen["asks_pin"] and (passphrase is not None or not seen["public"]):
            pin = key.pin() or (passphrase() if passphrase else None)
        if not seen["public"]:
            if seen["asks_pin"] and pin is None:
                msg = f"no public key of the token fits pkcs11:{rest} as far as it shows without a PIN"
                raise ReferenceNotFoundError(msg, remedy="check object and id; to see what is hidden: pin-source=FILE")
            seen = _call(key, login=True, pin=pin)
        return Pkcs11Signer(key, pin, PublicKey.load(seen["public"].encode()))


class Pkcs11Signer:
    """A key on a token; see :class:`vitrify.trust.keys.Signer`."""

    def __init__(self, key: KeyUri, pin: str | None, public: PublicKey) -> None:
        """Keep where it is, and what opens it."""
        self._key = key
        self._pin = pin
        self.public = public
        self.keyid = public.keyid
        self.algorithm: Algorithm = public.algorithm

    def sign(self, data: bytes) -> bytes:
        """Return the signature over data; whoever uses it verifies it.

        Raises:
            ReferenceNotFoundError: The token or the private key is not there.
            AuthenticationError: The PIN is wrong or locked.
            UnavailableError: The module failed, or took too long.
        """
        return bytes.fromhex(_call(self._key, login=True, pin=self._pin, data=data)["signature"])


def _call(key: KeyUri, *, login: bool = False, pin: str | None = None, data: bytes | None = None) -> dict[str, Any]:
    """Let the module work in a process of its own, and return its answer."""
    request = {
        "module": str(key.module),
        "token": dict(key.token),
        "label": key.label,
        "id": None if key.id is None else key.id.hex(),
        "login": login,
        "pin": pin,
        "data": None if data is None else b64encode(data).decode(),
    }
    command = [sys.executable, "-P", "-m", "vitrify.trust._pkcs11_process"]  # -P: no pkcs11.py of the working directory
    what = f"the module {key.module}"
    ended = run(command, json.dumps(request).encode(), limit=MAX_KEY_BYTES, what=what)
    if not ended.output:  # an answer counts also where the module then crashes while it is unloaded
        msg = f"{what} ended its process with {ended.status}: {ended.complaint or 'and said nothing'}"
        raise UnavailableError(msg, remedy=f"see whether it works by itself: pkcs11-tool --module {key.module} -L")
    answer: dict[str, Any] = json.loads(ended.output)
    if name := answer.get("error"):
        raise getattr(errors, name)(answer["message"], remedy=answer["remedy"])
    return answer
