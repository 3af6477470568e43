"""Who a client is, by the certificate that it has shown: of every plane the same name.

It is the subject's common name, or else the first URI, DNS name or e-mail address. Only a certificate that the clients'
authority has signed gets so far. The native plane has the same rule (``native/src/tls/openssl.rs``).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS = ("URI", "DNS", "email")
_GRPC = ("x509_common_name", "peer_uri", "peer_dns", "peer_email")


def of_ssl(connection: Any) -> str:
    """Return the name in a connection of :mod:`ssl`; empty where there is none."""
    shown = (connection.getpeercert() if connection is not None else None) or {}
    subject = chain.from_iterable(shown.get("subject", ()))
    others = shown.get("subjectAltName", ())
    common = [value for kind, value in subject if kind == "commonName"]
    return _first(common[:1], *([value for kind, value in others if kind == one] for one in _KINDS))


def of_grpc(context: Any) -> str:
    """Return the name in the context of a call of grpc; empty where there is none."""
    shown = context.auth_context()
    return _first(*([value.decode(errors="replace") for value in shown.get(one, ())] for one in _GRPC))


def _first(*names: Iterable[str]) -> str:
    """Return the first that is one: with a zero in it, it could be taken for another."""
    return next((name for name in chain(*names) if name and "\0" not in name), "")
