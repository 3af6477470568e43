"""Hosts: how they stand in a URL, and which of them is only this machine."""

from __future__ import annotations

import ipaddress


def bracketed(host: str) -> str:
    """Return a host as it stands in a URL (RFC 3986, section 3.2.2): an IPv6 address in brackets."""
    plain = host.strip("[]")
    return f"[{plain}]" if ":" in plain else plain


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine for itself only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
