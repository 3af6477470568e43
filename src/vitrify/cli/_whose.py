"""Whose signature counts, and which one: what ``verify`` was asked, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.report import Report
    from vitrify.trust.keys import PublicKey


@dataclass(frozen=True)
class Whose:
    """The options of ``verify`` that are about signatures.

    Attributes:
        keys: References of public keys.
        signed_by: An identity.
        issuer: Who vouched for it.
        sigstore: File with the configuration of an instance.
        signature: The signature's file.
        unsigned: Files that may be there although nobody signed them.
        offline: Whether the trust root that is here is used as it is.
    """

    keys: tuple[str, ...]
    signed_by: str | None
    issuer: str | None
    sigstore: str | None
    signature: str | None
    unsigned: tuple[str, ...]
    offline: bool = False

    @property
    def asked(self) -> bool:
        """Whether anybody's signature is asked for."""
        return bool(self.keys or self.signed_by)

    def check(self, reference: str | None, folder: Path | None) -> None:
        """Refuse what cannot be meant.

        Raises:
            UsageError: The options contradict each other, or lack one.
        """
        alone = not self.signed_by and (self.sigstore or self.offline)
        if bool(self.signed_by) != bool(self.issuer) or alone:
            msg = "an identity is verified with the provider that vouched for it, and one is missing"
            raise UsageError(msg, remedy="--signed-by WHO --issuer URL")
        if self.keys and self.signed_by:
            raise UsageError("who signed: a key or an identity", remedy="leave --key or --signed-by out")
        if not self.asked and (folder or self.signature or self.unsigned):
            msg = "a signature is verified with a key, and none is given"
            raise UsageError(msg, remedy="name the public key: --key KEY (or who signed: --signed-by WHO --issuer URL)")
        if self.asked and reference is None:
            raise UsageError(
                "whose artifact is it: a reference is missing", remedy="vitrify verify REFERENCE --key KEY"
            )
        if self.unsigned and not folder:
            raise UsageError(
                "--unsigned is for directories: all files of an artifact are signed", remedy="leave it out"
            )
        if self.signed_by and not folder and not self.signature:
            raise UsageError("a signature by identity is a file, and none is named", remedy="--signature FILE")

    def directory(self, folder: Path) -> Report:
        """Say whether one of them signed a directory's files."""
        from vitrify.trust import model_signing, sigstore

        file = Path(self.signature) if self.signature else folder / model_signing.SIGNATURE_FILE
        if self.signed_by and self.issuer:
            instance = sigstore.Instance(self.sigstore, offline=self.offline)
            who = {"signed_by": self.signed_by, "issuer": self.issuer}
            return sigstore.verify_directory(folder, file, **who, instance=instance, unsigned=self.unsigned)
        return model_signing.verify_directory(folder, file, self._public(), unsigned=self.unsigned)

    def artifact(self, artifact: Artifact) -> Report:
        """Say whether one of them signed an artifact, or its files."""
        from vitrify.trust import model_signing, signing, sigstore

        where, digest = artifact.store, artifact.digest
        if self.signed_by and self.issuer and self.signature:
            instance = sigstore.Instance(self.sigstore, offline=self.offline)
            who = {"signed_by": self.signed_by, "issuer": self.issuer}
            return sigstore.verify_artifact(where, digest, self.signature, **who, instance=instance)
        if self.signature:
            return model_signing.verify_artifact(where, digest, self.signature, self._public())
        return signing.verify(where, digest, self._public())

    def _public(self) -> list[PublicKey]:
        from vitrify.trust.keyring import Keyring

        return [Keyring().verifier(key) for key in self.keys]
