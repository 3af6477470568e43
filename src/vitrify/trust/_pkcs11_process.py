"""The process in which the module of a token runs: see :mod:`vitrify.trust.pkcs11_signer`, which starts it.

It reads one request as JSON from its standard input, and writes one answer as JSON to its standard output; what the
module prints goes to the standard error. Errors are answers, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from base64 import b64decode
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pkcs11
from pkcs11 import Attribute, KeyType, Mechanism, ObjectClass, TokenFlag

from vitrify.core.errors import (
    AuthenticationError,
    MalformedError,
    ReferenceNotFoundError,
    UnavailableError,
    UsageError,
    VitrifyError,
)
from vitrify.trust.keys import ALGORITHMS, PublicKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pkcs11 import Session, Token

    from vitrify.trust.keys import Algorithm

_CURVES: dict[bytes, Algorithm] = {  # CKA_EC_PARAMS, an ECParameters in DER
    bytes.fromhex("06082a8648ce3d030107"): "ecdsa-p256",
    bytes.fromhex("06032b6570"): "ed25519",  # RFC 8410
    b"\x13\x0cedwards25519": "ed25519",  # PKCS #11 3.0, section 2.3.10: the curve's name as a PrintableString
}
_PIN_ERRORS = {
    "PinIncorrect": "the PIN is wrong",
    "PinInvalid": "the PIN is wrong",
    "PinLenRange": "the PIN is wrong: it has a length that no PIN of this token has",
    "PinLocked": "the PIN is locked, after too many wrong ones",
    "PinExpired": "the PIN is expired",
    "UserPinNotInitialized": "the token has no PIN yet",
}
_POINT_BYTES = {"ecdsa-p256": 65, "ed25519": 32}
_FEW = 20
_RAW_BYTES = 64
"""An ECDSA P-256 signature as PKCS #11 has it: r and s, one after the other."""


def main() -> None:
    """Answer one request."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # before a module is loaded that prints
    request = json.load(sys.stdin.buffer)
    try:
        with _told(request["module"]):
            answer = _answer(request)
    except VitrifyError as error:
        answer = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
    with answers:
        answers.write(json.dumps(answer).encode())


@contextmanager
def _told(module: str) -> Iterator[None]:
    try:
        yield
    except pkcs11.PKCS11Error as error:
        kind = type(error).__name__
        if kind in _PIN_ERRORS:
            remedy = "look before you try again: tokens lock themselves after a few wrong PINs"
            raise AuthenticationError(_PIN_ERRORS[kind], remedy=remedy) from error
        msg = f"the module {module} refused: {kind}" + (f" ({error})" if str(error) else "")
        raise UnavailableError(msg, remedy=f"see what it says to: pkcs11-tool --module {module} -L") from error


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    token = _token(request)
    asks = bool(token.flags & TokenFlag.LOGIN_REQUIRED)
    pad = bool(token.flags & TokenFlag.PROTECTED_AUTHENTICATION_PATH)
    pin: Any = None
    if request["login"] and asks:
        pin = pkcs11.types.PROTECTED_AUTH if pad else request["pin"]  # a pad: typed on the token's own keys
        if pin is None:
            msg = f"the token {token.label!r} needs a PIN for this, and there is none"
            raise AuthenticationError(msg, remedy="pin-source=FILE in the reference, or --passphrase-file FILE")
    with token.open(user_pin=pin) as session:
        if request["data"] is not None:
            key = _find(session, ObjectClass.PRIVATE_KEY, request)
            return {"signature": _sign(key, b64decode(request["data"]), request["pin"]).hex()}
        if not request["login"] and not _objects(session, ObjectClass.PUBLIC_KEY, request):
            return {"public": None, "asks_pin": asks and not pad}
        public = _public(_find(session, ObjectClass.PUBLIC_KEY, request))
    return {"public": public.pem.decode(), "asks_pin": asks and not pad}


def _token(request: dict[str, Any]) -> Token:
    wanted, there, fit = request["token"], [], []
    for slot in pkcs11.lib(request["module"]).get_slots(token_present=True):
        try:
            token = slot.get_token()
        except (pkcs11.TokenNotPresent, pkcs11.TokenNotRecognised):
            continue  # it was pulled out meanwhile, or is of another kind
        if not token.flags & TokenFlag.TOKEN_INITIALIZED:
            continue
        there.append(token.label)
        facts = {
            "token": token.label,
            "serial": token.serial.decode(errors="replace").rstrip("\0 "),
            "manufacturer": token.manufacturer_id,
            "model": token.model,
        }
        if wanted.items() <= facts.items():
            fit.append(token)
    if len(fit) == 1:
        return fit[0]
    said = ", ".join(f"{name}={value}" for name, value in wanted.items()) or "anything"
    if fit:
        msg = f"{len(fit)} tokens fit {said} (expected one; there are: {_few(there)})"
        raise UsageError(msg, remedy="say which: token=LABEL or serial=NUMBER")
    msg = f"no token fits {said} (there are: {_few(there)})"
    raise ReferenceNotFoundError(msg, remedy=f"plug it in, and look: pkcs11-tool --module {request['module']} -L")


def _objects(session: Session, kind: ObjectClass, request: dict[str, Any]) -> list[Any]:
    template: dict[Attribute, Any] = {Attribute.CLASS: kind}
    if request["label"] is not None:
        template[Attribute.LABEL] = request["label"]
    if request["id"] is not None:
        template[Attribute.ID] = bytes.fromhex(request["id"])
    return list(session.get_objects(template))


def _find(session: Session, kind: ObjectClass, request: dict[str, Any]) -> Any:
    found = _objects(session, kind, request)
    if len(found) == 1:
        return found[0]
    names = (("object", request["label"]), ("id", request["id"]))
    said = " ".join(f"{name}={value}" for name, value in names if value is not None) or "anything"
    half = kind.name.lower().replace("_", " ")
    others: list[Any] = list(session.get_objects({Attribute.CLASS: kind}))
    labels = [key.label or f"id {key.id.hex()}" for key in others]
    if found:
        msg = f"{len(found)} keys fit {said} (expected one {half}; there are: {_few(labels)})"
        raise UsageError(msg, remedy="say which: object=LABEL and id=%01, as pkcs11-tool -O shows them")
    msg = f"no {half} fits {said} (there are: {_few(labels)})"
    raise ReferenceNotFoundError(msg, remedy="look: pkcs11-tool -O; both halves of a key need the label or id")


def _few(names: list[str]) -> str:
    return ", ".join(sorted(names)[:_FEW]) or "none"


def _public(key: Any) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    algorithm = _algorithm(key)
    point = _point(key[Attribute.EC_POINT], _POINT_BYTES[algorithm])
    try:
        if algorithm == "ed25519":
            return PublicKey.of(Ed25519PublicKey.from_public_bytes(point))
        return PublicKey.of(EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point))
    except ValueError as error:
        msg = f"the module's public key is no point of its curve: {point.hex()} ({error})"
        raise MalformedError(msg) from error


def _algorithm(key: Any) -> Algorithm:
    kind = getattr(key.key_type, "name", str(key.key_type))
    if key.key_type in {KeyType.EC, KeyType.EC_EDWARDS}:
        parameters = bytes(key[Attribute.EC_PARAMS])
        if parameters in _CURVES:
            return _CURVES[parameters]
        kind += f" on another curve (parameters {parameters.hex()})"
    msg = f"the token's key is {kind} (expected {' or '.join(ALGORITHMS)})"
    raise UsageError(msg, remedy="make one: pkcs11-tool --keypairgen --key-type EC:prime256v1 --label NAME --id 01")


def _point(value: bytes, size: int) -> bytes:
    """Take off the OCTET STRING that PKCS #11 demands, and the BIT STRING or the nothing that some modules give."""
    wrappings = (b"", bytes([4, size]), bytes([3, size + 1, 0]))
    return value[-size:] if value[:-size] in wrappings else value


def _sign(key: Any, data: bytes, pin: str | None) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if not isinstance(key, pkcs11.types.SignMixin):
        msg = f"the token does not let its key {key.label!r} sign"
        raise UsageError(msg, remedy="make a key whose use is to sign (CKA_SIGN)")
    again = pin if _is_asked_each_time(key) else None
    if _algorithm(key) == "ed25519":
        return key.sign(data, mechanism=Mechanism.EDDSA, pin=again)
    # The digest is taken here, because every module has CKM_ECDSA, and not every one CKM_ECDSA_SHA256.
    raw = key.sign(hashlib.sha256(data).digest(), mechanism=Mechanism.ECDSA, pin=again)
    if len(raw) != _RAW_BYTES:
        msg = f"the module gave a signature of {len(raw)} bytes (expected {_RAW_BYTES}: r and s)"
        raise MalformedError(msg)
    half = _RAW_BYTES // 2
    return encode_dss_signature(int.from_bytes(raw[:half], "big"), int.from_bytes(raw[half:], "big"))


def _is_asked_each_time(key: Any) -> bool:
    """Say whether the PIN is wanted for each signature, as smart cards do for the key of a person's own signature."""
    try:
        return bool(key[Attribute.ALWAYS_AUTHENTICATE])
    except pkcs11.PKCS11Error:
        return False  # a module older than the attribute


if __name__ == "__main__":
    main()
