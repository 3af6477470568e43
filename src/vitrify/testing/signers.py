"""For authors of signers: what a key has to promise, wherever it lies.

A signer is reached by ``scheme:rest``: a row of kind ``signer`` whose name is the scheme, and whose target is a
:class:`vitrify.trust.keyring.SignerSource`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vitrify.core.errors import ForgedError
from vitrify.trust import dsse
from vitrify.trust.keys import ALGORITHMS, PublicKey

if TYPE_CHECKING:
    from vitrify.trust.keys import Signer

_ED25519_BYTES = 64
_MAX_P256_BYTES = 72
_DER_SEQUENCE = 0x30


class SignerConformance:
    """Tests of a signer. Subclass it in a test module and implement ``signer``."""

    def signer(self) -> Signer:
        """Return the signer."""
        raise NotImplementedError

    def test_its_id_and_algorithm_are_those_of_its_public_key(self) -> None:
        """Whoever looks at one need not ask the other."""
        signer = self.signer()
        assert signer.algorithm in ALGORITHMS
        assert (signer.keyid, signer.algorithm) == (signer.public.keyid, signer.public.algorithm)
        assert PublicKey.load(signer.public.pem) == signer.public

    def test_what_it_signs_its_public_key_verifies(self) -> None:
        """Of any length, nothing included."""
        signer = self.signer()
        for data in (b"", b"x", bytes(range(256)) * 5000):
            signer.public.verify(data, signer.sign(data))

    def test_a_signature_has_the_form_of_its_algorithm(self) -> None:
        """64 bytes of Ed25519, or ECDSA in DER, and not the two numbers one after the other."""
        signer = self.signer()
        signature = signer.sign(b"x")
        if signer.algorithm == "ed25519":
            assert len(signature) == _ED25519_BYTES
        else:
            assert signature[0] == _DER_SEQUENCE
            assert len(signature) <= _MAX_P256_BYTES

    def test_a_signature_holds_for_nothing_else(self) -> None:
        """What was signed is all of the bytes."""
        signer = self.signer()
        signature = signer.sign(b"x" * 1000)
        for other in (b"", b"x" * 999, b"x" * 999 + b"y"):
            with pytest.raises(ForgedError):
                signer.public.verify(other, signature)

    def test_it_signs_envelopes(self) -> None:
        """That is what it is for."""
        signer = self.signer()
        envelope = dsse.sign(b"{}", "application/json", [signer])
        assert dsse.verify(envelope, [signer.public]) == (signer.keyid,)
