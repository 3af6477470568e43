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
_OCI = "oci://"
_SCHEMES = ("s3://", "hf://")
_MAX_NAME = 200

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?:(?P<host>{_LABEL}(?:\.{_LABEL})*)|\[(?P<ipv6>[0-9A-Fa-f:.]{{2,45}})\])(?::(?P<port>[0-9]{{1,5}}))?"
)
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_REMOTE_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_MAX_HOST = 253
_MAX_REPOSITORY = 255
_MAX_PORT = 65535


@dataclass(frozen=True)
class Remote:
    """What lies in an OCI registry.

    Attributes:
        host: Host and port, as in a URL: ``ghcr.io``, ``localhost:5000``, ``[::1]:5000``.
        repository: The name inside the registry: ``team/churn``.
        tag: What it is called there, or None where it is named by its digest.
        digest: Its digest, or None where it is named by a tag.
    """

    host: str
    repository: str
    tag: str | None = None
    digest: Digest | None = None

    def __str__(self) -> str:
        """Return the text that parses to this."""
        end = f"@{self.digest}" if self.digest else f":{self.tag}"
        return f"{_OCI}{self.host}/{self.repository}{end}"


@dataclass(frozen=True)
class Reference:
    """A parsed reference.

    Attributes:
        kind: ``name`` (with a tag), ``digest``, ``path`` (an exported archive or a layout directory), ``remote`` (in
            an OCI registry), or ``alias`` (a registered name and one of its aliases or stages).
        value: ``name:tag``, the digest's text, the path, ``oci://host/name:tag``, or ``name@alias``.
    """

    kind: Literal["name", "digest", "path", "remote", "alias"]
    value: str

    def __str__(self) -> str:
        """Return the text that parses to this reference."""
        return self.value

    @property
    def digest(self) -> Digest:
        """The digest, for a reference of that kind."""
        return Digest.parse(self.value)

    @property
    def remote(self) -> Remote:
        """The parts of a reference to an OCI registry.

        Raises:
            UsageError: It is a reference of another kind.
        """
        return remote(self.value)

    @property
    def known_as(self) -> str | None:
        """The name by which what is opened goes, with a tag where it has one: what policies ask about.

        An alias stands in the tag's place. Of a registry only the repository counts, not its host: what a policy
        demands of ``team/*`` it demands wherever such a model comes from. A digest and a path say no name.
        """
        if self.kind == "name":
            return self.value
        if self.kind == "alias":
            return ":".join(self.alias)
        if self.kind == "remote":
            found = self.remote
            return f"{found.repository}:{found.tag}" if found.tag else found.repository
        return None

    @property
    def alias(self) -> tuple[str, str]:
        """The registered name and the alias.

        Raises:
            UsageError: It is a reference of another kind.
        """
        return _alias(self.value)


def parse(text: str) -> Reference:
    """Parse ``name``, ``name:tag``, ``name@alias``, ``sha256:<hex>``, ``oci://host/name:tag``, or a path.

    A path has a slash at its start, ``./``, ``../`` or ``~``, or ends in ``.tar`` or ``.vit``. What has an ``@`` is an
    alias. Everything else is a name.

    Raises:
        UsageError: It is none of these; the message says what each looks like.
    """
    if text.startswith("sha256:"):
        return Reference("digest", str(Digest.parse(text)))
    if text.startswith(_OCI):
        return Reference("remote", str(remote(text)))
    if text.startswith(_SCHEMES):
        msg = f"{text!r}: models are not opened there"
        raise UsageError(msg, remedy="name an artifact: name, name:tag, name@alias, sha256:..., oci://host/name:tag")
    if text.startswith(("/", "./", "../", "~")) or text.endswith((".tar", ".vit")):
        return Reference("path", text)
    if "@" in text:
        return Reference("alias", "@".join(_alias(text)))
    return Reference("name", name(text))


def name(text: str) -> str:
    """Return ``name:tag`` for a name with or without a tag.

    Raises:
        UsageError: It is no valid name.
    """
    base, _, tag = text.partition(":")
    tag = tag or DEFAULT_TAG
    if not _is_name(base) or not _TAG.fullmatch(tag):
        msg = (
            f"not a valid artifact name: {text!r} (expected letters, digits and single . _ - / between them, "
            "and after a colon a tag of the same, of at most 128 characters)"
        )
        raise UsageError(msg, remedy="for example: churn, team/churn:1.2.0")
    return f"{base}:{tag}"


def remote(text: str) -> Remote:
    """Parse ``oci://host[:port]/name``, with ``:tag`` or ``@sha256:<hex>`` behind it or without.

    Source: the grammar of the OCI distribution specification 1.1 ("Pulling manifests").

    Raises:
        UsageError: It is none.
    """
    host, _, path = text.removeprefix(_OCI).partition("/")
    repository, at, hexes = path.partition("@")
    tag: str | None = None
    if not at:
        repository, _, given = path.partition(":")
        tag = given or DEFAULT_TAG
    found = _HOST.fullmatch(host)
    good = (
        text.startswith(_OCI)
        and found is not None
        and len(host) <= _MAX_HOST
        and int(found["port"] or 1) in range(1, _MAX_PORT + 1)
        and len(repository) <= _MAX_REPOSITORY
        and _REPOSITORY.fullmatch(repository)
        and (tag is None or _REMOTE_TAG.fullmatch(tag))
    )
    if not good:
        msg = (
            f"not a reference to an OCI registry: {text[:400]!r} (expected oci://host[:port]/name[:tag] in lower case)"
        )
        raise UsageError(msg, remedy="for example: oci://ghcr.io/team/churn:1.2.0")
    return Remote(host, repository, tag, Digest.parse(hexes) if at else None)


def _alias(text: str) -> tuple[str, str]:
    base, _, alias = text.partition("@")
    if not _is_name(base) or not _TAG.fullmatch(alias):
        msg = f"not a name with an alias: {text[:400]!r} (expected name@alias, of letters, digits and single . _ -)"
        raise UsageError(msg, remedy="for example: churn@production")
    return base, alias


def _is_name(base: str) -> bool:
    return (
        len(base) <= _MAX_NAME and base != "sha256" and _NAME.fullmatch(base) is not None
    )  # it would read as a digest
