"""Who made it, and who says so: keys, signatures, attestations, policy, bills of materials, encryption.

>>> from vitrify.trust.keyring import Keyring                       # doctest: +SKIP
>>> key = Keyring().signer("release", passphrase=ask)               # doctest: +SKIP
>>> signing.sign(store, digest, key)                                # the key vouches for the artifact  # doctest: +SKIP
>>> signing.attest(store, digest, "urn:acme:review:v1", said, key)  # the key says something about it  # doctest: +SKIP
>>> signing.verify(store, digest, [public]).passed                  # doctest: +SKIP
>>> gather(store, digest, [public])                                 # all that is said, and by whom  # doctest: +SKIP

``keys`` and ``dsse`` are the bytes; ``evidence`` is what a policy is asked about; ``model_signing`` signs directories
for the OpenSSF tool, and ``sigstore`` does so by identity.
"""
