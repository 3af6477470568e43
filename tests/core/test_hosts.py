"""Hosts as people write them."""

from __future__ import annotations

import pytest

from vitrify.core.hosts import bracketed, is_loopback


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a", False)],
)
def test_only_this_machine_is_loopback(host, is_own):
    assert is_loopback(host) is is_own


@pytest.mark.parametrize(
    ("host", "shown"), [("::1", "[::1]"), ("[::1]", "[::1]"), ("10.0.0.1", "10.0.0.1"), ("example.org", "example.org")]
)
def test_only_an_ipv6_address_stands_in_brackets(host, shown):
    assert bracketed(host) == shown
