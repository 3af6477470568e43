"""A Sigstore instance in this process: certificate authority, certificate log and signature log, over HTTP.

It speaks what the public one speaks (Fulcio's API 2, RFC 6962 certificate timestamps, Rekor's API 1), with keys of its
own and a log that has one entry at a time. What it does not do is check the tokens that it is shown.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "https://accounts.example.org"
_SHA256 = hashes.SHA256()
_SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER_V1, _ISSUER_V2 = (x509.ObjectIdentifier(f"1.3.6.1.4.1.57264.1.{number}") for number in (1, 8))


def b64(data):
    return base64.b64encode(data).decode()


def key_id(key):
    der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest(), der


class Instance:
    """The services and their trust configuration; ``lie`` changes what the log answers."""

    def __init__(self):
        self.ca_key, self.ct_key, self.log_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's own authority")])
        self.start = datetime.now(UTC) - timedelta(days=1)
        self.ca = self._authority()
        self.lie = lambda entry: entry
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def configuration(self):
        valid = {"start": self.start.isoformat().replace("+00:00", "Z")}

        def log(key):
            number, der = key_id(key)
            public = {"rawBytes": b64(der), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
            return {
                "baseUrl": self.url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": b64(number)},
            }

        service = {"url": self.url, "majorApiVersion": 1, "validFor": valid, "operator": "a test"}
        authority = {
            "subject": {"organization": "a test", "commonName": "a test"},
            "uri": self.url,
            "certChain": {"certificates": [{"rawBytes": b64(self.ca.public_bytes(serialization.Encoding.DER))}]},
            "validFor": valid,
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self.log_key)],
                "certificateAuthorities": [authority],
                "ctlogs": [log(self.ct_key)],
                "timestampAuthorities": [],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "oidcUrls": [service],
                "rekorTlogUrls": [service],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaUrls": [],
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def _authority(self):
        usage = dict.fromkeys(("digital_signature", "content_commitment", "key_encipherment"), False)
        usage |= dict.fromkeys(("data_encipherment", "key_agreement", "encipher_only", "decipher_only"), False)
        public = self.ca_key.public_key()
        return (
            self._builder(self.name, public, timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.ca_key, _SHA256)
        )

    def _builder(self, subject, public, length):
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self.name).public_key(public)
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(self.start).not_valid_after(self.start + timedelta(days=1) + length)

    def certificate(self, public, identity, issuer):
        """Return a certificate of ten minutes that says who somebody is, noted in the certificate log."""
        false = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
        false |= dict.fromkeys(("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.ca_key.public_key())
        issuer_v2 = b"\x0c" + bytes([len(issuer)]) + issuer.encode()
        builder = (
            self._builder(x509.Name([]), public, timedelta(minutes=10))
            .add_extension(x509.KeyUsage(digital_signature=True, **false), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(authority, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V1, issuer.encode()), critical=False)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V2, issuer_v2), critical=False)
        )
        before = builder.sign(self.ca_key, _SHA256).tbs_certificate_bytes
        stamp = int(datetime.now(UTC).timestamp()) * 1000
        entry = key_id(self.ca_key)[0] + len(before).to_bytes(3, "big") + before
        signed = struct.pack("!BBQH", 0, 0, stamp, 1) + entry + b"\0\0"
        signature = self.ct_key.sign(signed, ec.ECDSA(_SHA256))
        sct = b"\0" + key_id(self.ct_key)[0] + struct.pack("!QHBBH", stamp, 0, 4, 3, len(signature)) + signature
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        timestamps = x509.UnrecognizedExtension(_SCT_LIST, b"\x04" + bytes([len(listed)]) + listed)
        return builder.add_extension(timestamps, critical=False).sign(self.ca_key, _SHA256)

    def entry(self, proposed):
        """Return the log's entry for a proposed one: the first and last of a new log."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        signatures = [{"signature": one["sig"], "verifier": content["verifiers"][0]} for one in envelope["signatures"]]
        spec = {"signatures": signatures}
        hashed = {"envelopeHash": content["envelope"].encode(), "payloadHash": base64.b64decode(envelope["payload"])}
        spec |= {
            name: {"algorithm": "sha256", "value": hashlib.sha256(data).hexdigest()} for name, data in hashed.items()
        }
        body = json.dumps({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec}, sort_keys=True).encode()
        number = key_id(self.log_key)[0]
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"a test's log - 1\n1\n{b64(root)}\n"
        signature = b64(number[:4] + self.log_key.sign(note.encode(), ec.ECDSA(_SHA256)))
        promised = {"body": b64(body), "integratedTime": int(datetime.now(UTC).timestamp())}
        promised |= {"logID": number.hex(), "logIndex": 0}
        canonical = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        proof = {"logIndex": 0, "rootHash": root.hex(), "treeSize": 1, "hashes": []}
        proof["checkpoint"] = f"{note}\n\u2014 test {signature}\n"
        timestamp = b64(self.log_key.sign(canonical, ec.ECDSA(_SHA256)))
        return self.lie({**promised, "verification": {"inclusionProof": proof, "signedEntryTimestamp": timestamp}})

    def _handler(self):
        instance = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path == "/api/v2/signingCert":
                    token = self.headers["Authorization"].split(".")[1]
                    claims = json.loads(base64.urlsafe_b64decode(token + "=="))
                    request = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
                    made = instance.certificate(request.public_key(), claims["sub"], claims["iss"])
                    chain = [one.public_bytes(serialization.Encoding.PEM).decode() for one in (made, instance.ca)]
                    answer = {"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}
                else:
                    answer = {"24296fb2": instance.entry(asked)}
                self._answer(answer)

            def do_GET(self):
                # Only this is asked for: where one would log in, if one had no token.
                self._answer({"authorization_endpoint": instance.url, "token_endpoint": instance.url})

            def _answer(self, answer):
                data = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments):
                pass

        return Handler
