"""References: how people name an artifact. One parser for all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError

DEFAULT_TAG = "latest"

_NAME = re.compile(r"[a-z0-9]+(?:[._/-][a-z0-9]+)*", re.IGNORECASE | re.ASCII)
_TAG = re.compile(r"(?=.{1,128}$)[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_SCHEMES = ("oci://", "s3://", "hf://")
_MAX_NAME = 200


@dataclass(frozen=True)
class Reference:
    """A parsed reference.

    Attributes:
        kind: ``name`` (with a tag), ``digest``, or ``path`` (an exported archive or a layout directory).
        value: ``name:tag``, the digest's text, or the path.
    """

    kind: Literal["name", "digest", "path"]
    value: str

    def __str__(self) -> str:
        """Return the text that parses to this reference."""
        return self.value

    @property
    def digest(self) -> Digest:
        """The digest, for a reference of that kind."""
        return Digest.parse(self.value)


def parse(text: str) -> Reference:
    """Parse ``name``, ``name:tag``, ``sha256:<hex>``, or a path.

    A path has a slash at its start, ``./``, ``../`` or ``~``, or ends in ``.tar`` or ``.vit``. Everything else is a
    name.

    Raises:
        UsageError: It is none of these; the message says what each looks like.
    """
    if text.startswith("sha256:"):
        return Reference("digest", str(Digest.parse(text)))
    if text.startswith(_SCHEMES) or "@" in text:
        msg = f"{text!r}: remote stores and aliases are not part of this version"
        raise UsageError(msg, remedy="name a local artifact (name, name:tag, sha256:...) or the path of an export")
    if text.startswith(("/", "./", "../", "~")) or text.endswith((".tar", ".vit")):
        return Reference("path", text)
    return Reference("name", name(text))


def name(text: str) -> str:
    """Return ``name:tag`` for a name with or without a tag.

    Raises:
        UsageError: It is no valid name.
    """
    base, _, tag = text.partition(":")
    tag = tag or DEFAULT_TAG
    bad = len(base) > _MAX_NAME or base == "sha256"  # which would read as a digest
    if bad or not _NAME.fullmatch(base) or not _TAG.fullmatch(tag):
        msg = (
            f"not a valid artifact name: {text!r} (expected letters, digits and single . _ - / between them, "
            "and after a colon a tag of the same, of at most 128 characters)"
        )
        raise UsageError(msg, remedy="for example: churn, team/churn:1.2.0")
    return f"{base}:{tag}"
