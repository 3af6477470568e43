"""References: one parser, and what it accepts other OCI tools accept too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError
from vitrify.core.reference import Reference, name, parse

DIGEST = str(Digest.of(b""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("churn", Reference("name", "churn:latest")),
        ("churn:1.2.0", Reference("name", "churn:1.2.0")),
        ("team/churn", Reference("name", "team/churn:latest")),
        ("Team/Churn-2:RC_1", Reference("name", "Team/Churn-2:RC_1")),
        (DIGEST, Reference("digest", DIGEST)),
        ("./churn.vit", Reference("path", "./churn.vit")),
        ("../x/churn", Reference("path", "../x/churn")),
        ("/tmp/churn", Reference("path", "/tmp/churn")),
        ("~/churn", Reference("path", "~/churn")),
        ("churn.tar", Reference("path", "churn.tar")),
        ("dir/churn.vit", Reference("path", "dir/churn.vit")),
    ],
)
def test_each_kind_is_recognised(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("sha256", "a:_x", "a:x__y", "a:x.", "a:x..y"),
        *("", ":", ":1", "a b", "-a", "a-", "a..b", "a//b", "a/", "a:b:c", "a:b c", "a:-b", "a:" + "x" * 129),
        *("a" * 201, "a\n", "naïve", "a:\u0661", "\u017f", "\u212a"),
        *("sha256:", "sha256:abc", f"{DIGEST}0", "oci://host/churn", "s3://bucket/churn", "hf://org/m", "churn@prod"),
    ],
)
def test_what_is_none_is_a_usage_error(text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert repr(text)[1:20] in str(caught.value)


@given(st.text(max_size=60))
def test_what_was_parsed_parses_to_itself(text):
    try:
        reference = parse(text)
    except UsageError:
        return
    assert parse(str(reference)) == reference


@given(
    st.from_regex(
        r"[A-Za-z0-9]{1,5}([._/-][A-Za-z0-9]{1,5}){0,3}(:[A-Za-z0-9]{1,5}([._-][A-Za-z0-9]{1,5}){0,3})?", fullmatch=True
    )
)
def test_a_name_with_its_tag_is_one_that_an_oci_layout_takes(text):
    from vitrify.stores._index import check_name

    check_name(name(text))


def test_only_a_digest_reference_has_a_digest():
    assert parse(DIGEST).digest == Digest.of(b"")
    with pytest.raises(UsageError):
        _ = parse("churn").digest
