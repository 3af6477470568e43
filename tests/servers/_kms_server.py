"""Moto's server with one repair.

Amazon's reference says of ``Sign`` that it signs a digest as it is (``MessageType=DIGEST``). Moto 5.2.5 hashes it once
more, so that its signature is over something else.
"""

from __future__ import annotations

import threading

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from moto.kms.responses import KmsResponse
from moto.kms.utils import ECDSAPrivateKey
from moto.server import main

request = threading.local()
sign, sign_with = KmsResponse.sign, ECDSAPrivateKey.sign


def sign_as_asked(self):
    request.is_digest = self._get_param("MessageType") == "DIGEST"
    return sign(self)


def sign_what_is_given(self, message, signing_algorithm):
    if not request.is_digest:
        return sign_with(self, message, signing_algorithm)
    return self.private_key.sign(message, ECDSA(Prehashed(SHA256())))


KmsResponse.sign, ECDSAPrivateKey.sign = sign_as_asked, sign_what_is_given
if __name__ == "__main__":
    main()
