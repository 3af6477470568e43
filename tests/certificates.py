"""Certificates for 127.0.0.1, made on the spot: an authority, and whom it knows."""

from __future__ import annotations

import datetime as dt
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certified(folder, name, issuer=None, *, common=True, others=(), until=1):
    """Write a key and a certificate, by an issuer or by itself, and return both with their paths.

    Args:
        folder: Where.
        name: Of the files, and the subject's common name where it is to have one.
        issuer: What this has returned for the authority.
        common: Whether it has a common name; else its organisation is called so.
        others: More alternative names than 127.0.0.1.
        until: Days from now until it expires.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    kind = NameOID.COMMON_NAME if common else NameOID.ORGANIZATION_NAME
    subject = x509.Name([x509.NameAttribute(kind, name)])
    by, signer = (issuer[0].subject, issuer[1]) if issuer else (subject, key)
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(
            by, subject, key.public_key(), x509.random_serial_number(), now - 9 * day, now + until * day
        )
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([here, *others]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem, secret = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return certificate, key, pem, secret
