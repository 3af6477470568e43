"""References: one parser, and what it accepts other OCI tools accept too."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.digest import Digest
from vitrify.core.errors import UsageError
from vitrify.core.reference import Reference, Remote, name, parse

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
        ("churn@production", Reference("alias", "churn@production")),
        ("team/churn@v1.2-rc_1", Reference("alias", "team/churn@v1.2-rc_1")),
        ("oci://host/churn", Reference("remote", "oci://host/churn:latest")),
        ("oci://host:5000/a/b__c:_1.2", Reference("remote", "oci://host:5000/a/b__c:_1.2")),
        (f"oci://127.0.0.1/x@{DIGEST}", Reference("remote", f"oci://127.0.0.1/x@{DIGEST}")),
        ("oci://[::1]:5000/x:y", Reference("remote", "oci://[::1]:5000/x:y")),
        ("oci://ghcr.io/team/churn.tar", Reference("remote", "oci://ghcr.io/team/churn.tar:latest")),
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
        *("sha256:", "sha256:abc", f"{DIGEST}0", "s3://bucket/churn", "hf://org/m"),
        *("churn@", "@prod", "churn@a@b", "churn:1@prod", f"churn@{DIGEST}", "churn@-a", "churn@a b", "sha256@a"),
        *("oci://", "oci://host", "oci://host/", "oci:///churn", "oci://ho st/x", "oci://-host/x", "oci://host:/x"),
        *("oci://host:0/x", "oci://host:65536/x", "oci://user:secret@host/x", "oci://host/X", "oci://host/a//b"),
        *("oci://host/../x", "oci://host/x?y=1", "oci://host/x#y", "oci://host/x:a:b", "OCI://host/x"),
        *(f"oci://host/x:tag@{DIGEST}", "oci://host/x%2f..", "oci://host/x\n", "oci://host/x:-a", "oci://[::1/x"),
        *("oci://host/" + "x" * 256, "oci://" + "h" * 254 + "/x", "oci://host/x:" + "t" * 129, "oci://host\\@evil/x"),
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


def test_the_parts_of_a_remote_reference():
    assert parse("oci://host:5000/a/b:t").remote == Remote("host:5000", "a/b", "t")
    assert parse(f"oci://host/a@{DIGEST}").remote == Remote("host", "a", None, Digest.of(b""))
    with pytest.raises(UsageError):
        _ = parse("churn").remote


def test_half_a_digest_behind_a_remote_name_is_said():
    with pytest.raises(UsageError, match="not a digest: 'sha256:abc'"):
        parse("oci://host/x@sha256:abc")


def test_the_parts_of_an_alias():
    assert parse("team/churn@production").alias == ("team/churn", "production")
    with pytest.raises(UsageError):
        _ = parse("churn:1").alias


@given(st.from_regex(r"oci://[a-z0-9.:\[\]-]{1,12}/[a-z0-9._/-]{1,12}([:@][A-Za-z0-9:._-]{0,12})?", fullmatch=True))
def test_what_was_parsed_as_remote_parses_to_itself(text):
    try:
        reference = parse(text)
    except UsageError:
        return
    assert parse(str(reference)) == reference
    assert str(reference.remote) == reference.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("churn", "churn:latest"), ("team/churn@production", "team/churn:production"), ("./x.vit", None)),
        *(("oci://host/team/churn:1", "team/churn:1"), (f"oci://host/team/churn@{DIGEST}", "team/churn")),
        (DIGEST, None),
    ],
)
def test_policies_are_asked_about_a_name_wherever_it_comes_from(text, expected):
    assert parse(text).known_as == expected


def test_only_a_digest_reference_has_a_digest():
    assert parse(DIGEST).digest == Digest.of(b"")
    with pytest.raises(UsageError):
        _ = parse("churn").digest
