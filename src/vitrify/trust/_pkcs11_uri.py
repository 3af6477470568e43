"""The name of a key in a hardware module: a PKCS #11 URI.

Source: RFC 7512. A part of it that would be ignored here is refused, because it was written to choose between keys.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from vitrify.core.errors import AuthenticationError, ReferenceNotFoundError, UsageError
from vitrify.trust._private_file import read_small

if TYPE_CHECKING:
    from collections.abc import Mapping

MODULE_VARIABLE = "PKCS11_MODULE_PATH"

_EXAMPLE = "for example: pkcs11:token=models;object=release?module-path=/usr/lib/softhsm/libsofthsm2.so"
_TOKEN = ("token", "serial", "manufacturer", "model")
_PATH = (*_TOKEN, "object", "id", "type")
_QUERY = ("module-path", "pin-source")
_PAIRS = ("private", "public")
_VALUE = re.compile(r"(?:[^%\s]|%[0-9A-Fa-f]{2})*")
_MAX_PIN_BYTES = 4096


@dataclass(frozen=True)
class KeyUri:
    """Which key of which token.

    Attributes:
        module: The module's file, which is loaded into a process of its own.
        token: What must be so of the token: its ``token`` (label), ``serial``, ``manufacturer`` and ``model``.
        label: The label that both halves of the key have, or None for any.
        id: The id that both have, or None for any.
        pin_source: The file with the PIN, or None.
    """

    module: Path
    token: Mapping[str, str]
    label: str | None
    id: bytes | None
    pin_source: Path | None

    @classmethod
    def parse(cls, text: str) -> KeyUri:
        """Read what stands behind ``pkcs11:``.

        Raises:
            UsageError: It is no such URI, has a part that is not taken here, or names no module.
            ReferenceNotFoundError: There is no such module.
        """
        before, _, behind = text.partition("?")
        path = _pairs(before.split(";") if before else [], _PATH)
        query = _pairs(behind.split("&") if behind else [], _QUERY)
        texts = {name: _text(value) for name, value in (path | query).items() if name != "id"}
        if texts.get("type", "private") not in _PAIRS:
            msg = f"pkcs11: type={texts['type']} is no key pair (expected {' or '.join(_PAIRS)})"
            raise UsageError(msg, remedy="leave type out")
        source = texts.get("pin-source")
        return cls(
            module=_module(texts.get("module-path") or os.environ.get(MODULE_VARIABLE)),
            token={name: texts[name] for name in _TOKEN if name in texts},
            label=texts.get("object"),
            id=path.get("id"),
            pin_source=None if source is None else _file(source, "pin-source"),
        )

    def pin(self) -> str | None:
        """Return the first line of the file with the PIN; None where none is named.

        Raises:
            StoreError: It cannot be read.
            AuthenticationError: It holds no PIN.
        """
        if self.pin_source is None:
            return None
        pin = read_small(self.pin_source, _MAX_PIN_BYTES).decode(errors="replace").split("\n", 1)[0].removesuffix("\r")
        if not pin:
            msg = f"{self.pin_source}: its first line is empty (expected the PIN)"
            raise AuthenticationError(msg, remedy="write the PIN into it")
        return pin


def _pairs(parts: list[str], known: tuple[str, ...]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if name == "pin-value":  # the part is not told: it would print the PIN
            msg = "pkcs11: a PIN in a reference is seen by everybody who lists processes or reads a shell's history"
            raise UsageError(msg, remedy="pin-source=FILE, --passphrase-file FILE, or let yourself be asked")
        if not equals or not _VALUE.fullmatch(value) or name in found:
            msg = f"pkcs11: {part!r} is not NAME=VALUE, each name once, with %25, %3B and %20 for %, ; and space"
            raise UsageError(msg, remedy=_EXAMPLE)
        if name not in known:
            msg = f"pkcs11: {name!r} is not taken here (expected {', '.join(known)})"
            raise UsageError(msg, remedy=_EXAMPLE)
        found[name] = unquote_to_bytes(value)
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        msg = f"pkcs11: {value!r} is no text in UTF-8"
        raise UsageError(msg, remedy=_EXAMPLE) from error


def _module(text: str | None) -> Path:
    if not text:
        msg = "pkcs11: no module is named, the library that the maker of the token gives"
        raise UsageError(msg, remedy=f"?module-path=/path/of/its.so, or set {MODULE_VARIABLE}")
    path = _file(text, "module-path")
    if not path.is_file():
        msg = f"no PKCS #11 module at {path}"
        raise ReferenceNotFoundError(msg, remedy="install what the maker of the token gives, and check module-path")
    return path


def _file(text: str, name: str) -> Path:
    """Take an absolute path, or a ``file:`` URI of this machine; RFC 7512 has both."""
    path = text.removeprefix("file://").removeprefix("file:")
    if not path.startswith("/"):
        msg = f"pkcs11: {name}={text} is no absolute path"
        raise UsageError(msg, remedy=f"give the whole path: {name}=/...")
    return Path(path)
