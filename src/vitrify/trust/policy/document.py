"""The policy as a file: which keys count for which names, and what is required for which action.

::

    signed-evidence = true                      # by default: wherever a key is named for the model

    [keys.release]
    file = "keys/release.pub"                   # relative to this file
    names = ["churn", "team/*"]
    purposes = ["serve", "promote"]             # by default all: load, serve, ship, promote
    not-after = 2027-01-01                      # optional, as is not-before

    [[require]]
    for = ["serve", "promote:production"]
    names = ["*"]
    except = ["sandbox/*"]                      # optional
    rules = [
        { rule = "scan", max-age = "30d" },
        { rule = "signed-by", keys = ["release"] },
    ]
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from vitrify.core.errors import LimitExceededError, MalformedError, StoreError, VitrifyError
from vitrify.core.manifest import check_filepath
from vitrify.trust.policy.fields import Fields, near
from vitrify.trust.policy.match import PURPOSES, asked_for, covered, entitled, is_pattern
from vitrify.trust.policy.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from vitrify.trust.keys import PublicKey
    from vitrify.trust.policy.facts import Facts
    from vitrify.trust.policy.rules import Rule

MAX_BYTES = 1024 * 1024
_MAX_KEY_BYTES = 64 * 1024


@dataclass(frozen=True)
class TrustedKey:
    """One key that counts.

    Attributes:
        name: What the policy calls it.
        key: The key.
        names: Patterns of the model names that it is good for.
        purposes: What it is good for.
        not_before: The first moment at which it counts.
        not_after: The first moment at which it no longer does.
    """

    name: str
    key: PublicKey
    names: tuple[str, ...]
    purposes: tuple[str, ...] = PURPOSES
    not_before: datetime | None = None
    not_after: datetime | None = None

    def counts(self, facts: Facts) -> bool:
        """Say whether it counts for this name and purpose now.

        The moment that matters is the one of the question: what a signature says of its own time, whoever has stolen
        an old key can write.
        """
        early = self.not_before is not None and facts.now < self.not_before
        late = self.not_after is not None and facts.now >= self.not_after
        return not early and not late and facts.purpose in self.purposes and entitled(facts.name, self.names)


@dataclass(frozen=True)
class Requirement:
    """Rules that must all hold for some actions on some names.

    Attributes:
        place: Where it stands in the file.
        actions: Patterns of the actions.
        names: Patterns of the names.
        exceptions: Patterns of the names that it is not meant for.
        rules: What must hold, with the place of each.
    """

    place: str
    actions: tuple[str, ...]
    names: tuple[str, ...]
    exceptions: tuple[str, ...]
    rules: tuple[tuple[str, Rule], ...]

    def meant_for(self, facts: Facts) -> bool:
        """Say whether it is to be asked."""
        meant = asked_for(facts.action, self.actions) and covered(facts.name, self.names)
        return meant and not entitled(facts.name, self.exceptions)


@dataclass(frozen=True)
class Policy:
    """What somebody decided about models, read from a file and checked whole.

    Attributes:
        place: The file.
        keys: The keys that count, by their names.
        requirements: In the order of the file.
        signed_evidence: Whether evidence must be signed; None where the file leaves it to whether there are keys.
        sha256: Of its text, in hex.
    """

    place: str
    keys: Mapping[str, TrustedKey]
    requirements: tuple[Requirement, ...]
    signed_evidence: bool | None = None
    sha256: str = ""

    @property
    def public_keys(self) -> tuple[PublicKey, ...]:
        """Every key that it names: what evidence has to be checked against."""
        return tuple(trusted.key for trusted in self.keys.values())

    def wants_signatures(self, facts: Facts) -> bool:
        """Say whether evidence about this name counts only where it is signed.

        A key that has run out, or is for another purpose, asks for signatures all the same: else its end would
        open what it closed.
        """
        if self.signed_evidence is not None:
            return self.signed_evidence
        return any(covered(facts.name, trusted.names) for trusted in self.keys.values())

    def called(self, name: str) -> Self:
        """Return the same policy for others to see: its rules stand under a name, not in a file of this machine."""
        return replace(
            self,
            place=name,
            requirements=tuple(
                replace(
                    one,
                    place=f"{name}{one.place.removeprefix(self.place)}",
                    rules=tuple((f"{name}{place.removeprefix(self.place)}", rule) for place, rule in one.rules),
                )
                for one in self.requirements
            ),
        )

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a policy and the keys that it names.

        Raises:
            StoreError: The file cannot be read.
            MalformedError: It is no policy; the message names the place.
        """
        file = Path(path).expanduser()
        return cls.from_bytes(_read(file, MAX_BYTES), base=file.parent, where=str(path))

    @classmethod
    def from_bytes(cls, data: bytes, base: Path | None = None, *, where: str = "policy") -> Self:
        """Read a policy from UTF-8 TOML.

        Args:
            data: At most 1 MiB.
            base: The folder that key files are looked for in; without one, a policy can name none.
            where: What it is, for messages.

        Raises:
            MalformedError: It is no policy; the message names the place.
        """
        if len(data) > MAX_BYTES:
            msg = f"{where}: {len(data)} bytes, more than the limit of {MAX_BYTES}"
            raise LimitExceededError(msg)
        try:
            raw = tomllib.loads(data.decode())
        except (ValueError, RecursionError) as error:
            msg = f"{where}: not TOML ({error})"
            raise MalformedError(msg, remedy="vitrify policy init writes a file to start from") from error
        fields = Fields(raw, where)
        signed = fields.yes("signed-evidence", default=False) if fields.has("signed-evidence") else None
        keys = {name: _key(name, table, base) for name, table in fields.table("keys").items()}
        required = tuple(_requirement(table, keys) for table in fields.tables("require", ": require", []))
        fields.end()
        return cls(where, keys, required, signed, hashlib.sha256(data).hexdigest())


def _key(name: str, fields: Fields, base: Path | None) -> TrustedKey:
    file = fields.text("file")
    purposes = fields.texts("purposes", PURPOSES)
    for one in purposes:
        if one not in PURPOSES:
            msg = f"{fields.place}: unknown purpose {one!r}{near(one, PURPOSES)}"
            raise MalformedError(msg)
    names = _patterns(fields, "names", "names of models")
    before, after = fields.moment("not-before"), fields.moment("not-after")
    if before and after and before >= after:
        raise fields.wrong("not-after", f"a moment after not-before, {before.isoformat()}")
    fields.end()
    return TrustedKey(name, _public_key(file, fields.place, base), names, purposes, before, after)


def _public_key(file: str, place: str, base: Path | None) -> PublicKey:
    from vitrify.trust.keys import PublicKey  # the policy of a machine without keys needs no cryptography

    if base is None:
        msg = f"{place}: file is {file!r}, but this policy lies in no folder"
        raise MalformedError(msg, remedy="read the policy from its file")
    try:
        check_filepath(file)
        return PublicKey.load(_read(base / file, _MAX_KEY_BYTES))
    except VitrifyError as error:
        msg = f"{place}: {error.message}"
        raise MalformedError(msg, remedy=error.remedy or "name a public key in PEM, beside the policy") from error


def _requirement(fields: Fields, keys: Collection[str]) -> Requirement:
    actions = _patterns(fields, "for", "actions")
    for one in actions:
        purpose = one.partition(":")[0]
        if one != "*" and (purpose not in PURPOSES or (":" in one and purpose != "promote")):
            msg = f"{fields.place}: unknown action {one!r}{near(purpose, PURPOSES)}"
            raise MalformedError(msg)
    names = _patterns(fields, "names", "names of models")
    exceptions = _patterns(fields, "except", "names of models") if fields.has("except") else ()
    tables = fields.tables("rules", ", rule")
    if not tables:
        raise fields.wrong("rules", "at least one rule")
    rules = tuple(_rule(table, keys) for table in tables)
    fields.end()
    return Requirement(fields.place, actions, names, exceptions, rules)


def _rule(fields: Fields, keys: Collection[str]) -> tuple[str, Rule]:
    name = fields.text("rule")
    if name not in RULES:
        msg = f"{fields.place}: unknown rule {name!r}{near(name, RULES)}"
        raise MalformedError(msg)
    rule = RULES[name].parse(fields)
    fields.end()
    for key in rule.key_names():
        if key not in keys:
            msg = f"{fields.place}: unknown key {key!r}{near(key, keys)}"
            raise MalformedError(msg, remedy=f"add a table [keys.{key}]")
    return fields.place, rule


def _patterns(fields: Fields, key: str, what: str) -> tuple[str, ...]:
    patterns = fields.texts(key)
    for one in patterns:
        if not is_pattern(one):
            raise fields.wrong(key, f"patterns of {what}: letters, digits, . _ - / : and *, not {one!r}")
    return patterns


def _read(file: Path, limit: int) -> bytes:
    """Read at most one byte more than the limit, so that nobody's endless file is read to its end."""
    try:
        with file.open("rb") as stream:
            data = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        msg = f"{file} cannot be read ({error.strerror if isinstance(error, OSError) else error})"
        raise StoreError(msg, remedy="check the path and its rights") from error
    if len(data) > limit:
        msg = f"{file} has more than the limit of {limit} bytes"
        raise LimitExceededError(msg)
    return data
