"""A digest is the only name that content has."""

import hashlib
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import CHUNK, Digest
from vitrify.core.errors import UsageError


@given(st.binary())
def test_it_is_the_sha256_of_the_content_and_survives_text(data):
    digest = Digest.of(data)
    assert str(digest) == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert Digest.parse(str(digest)) == digest
    assert Digest.of(bytearray(data)) == Digest.of(memoryview(data)) == digest


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1])
def test_a_file_has_the_digest_of_its_bytes(tmp_path, size):
    data = b"\x5a" * size
    (tmp_path / "file").write_bytes(data)
    assert Digest.of_file(tmp_path / "file") == Digest.of(data)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sha256:",
        "0" * 64,
        "sha256:" + "0" * 63,
        "sha256:" + "0" * 65,
        "sha256:" + "A" * 64,
        "sha256:" + "g" * 64,
        "sha256:" + "0" * 64 + "\n",
        " sha256:" + "0" * 64,
        "sha512:" + "0" * 128,
        "md5:" + "0" * 32,
        "sha256:../../../../etc/passwd",
        "sha256:" + "\u0660" * 64,
    ],
)
def test_what_is_no_digest_is_refused_with_what_was_expected(text):
    with pytest.raises(UsageError, match="64 lower-case hex digits"):
        Digest.parse(text)


@given(st.text(max_size=80))
def test_parsing_any_text_gives_it_back_or_is_a_usage_error(text):
    with suppress(UsageError):
        assert str(Digest.parse(text)) == text


def test_digests_are_values():
    first, second = Digest.of(b"1"), Digest.of(b"2")
    assert {first, Digest.of(b"1")} == {first}
    assert all(a < b for a, b in pairwise(sorted({first, second})))
    assert first.hex.startswith(first.short)
    with pytest.raises(AttributeError):
        first.hex = "0"
