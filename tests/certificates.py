"""Certificates for 127.0.0.1, made on the spot: an authority, and whom it knows."""

from __future__ import annotations

import datetime as dt
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certified(folder, name, issuer=None):
    """Write a key and a certificate, by an issuer or by itself, and return both with their paths."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    by, signer = (issuer[0].subject, issuer[1]) if issuer else (subject, key)
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(by, subject, key.public_key(), x509.random_serial_number(), now - day, now + day)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    pem, secret = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return certificate, key, pem, secret
