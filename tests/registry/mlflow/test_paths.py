"""Where artifacts may lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import DeniedError, MalformedError, UsageError
from vitrify.registry.api.mlflow._paths import Pinned, below, check_path, from_uri, pinned

HOSTILE = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../up",
    "a/../../b",
    "a/./b",
    "a//b",
    "a/",
    "a\\b",
    "%2e%2e/a",
    "a/%252e%252e/b",
    "a%2f%2fb",
    "%25252525252561",
    "a\x00b",
    "a\nb",
    "C:/windows",
    "a:stream",
    'a"b',
    "a|b",
    "a*",
    "a" * 256,
    "/".join(["a" * 200] * 6),
    "é" * 128,
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_path_that_leaves_its_folder_or_is_too_long_is_refused(path):
    with pytest.raises((UsageError, MalformedError)):
        check_path(path)


@pytest.mark.parametrize("path", ["vitrify-versions", "vitrify-versions/churn/@1/MLmodel", "vitrify-versions/anything"])
def test_nobody_writes_into_a_version(path):
    assert check_path(path) == path
    with pytest.raises(DeniedError, match="can never change"):
        check_path(path, writing=True)


@pytest.mark.parametrize("model", ["churn", "team/churn", "a/b-c.d_e/f"])
@pytest.mark.parametrize("inner", ["", "MLmodel", "code/a/@2/b.py"])
def test_a_place_in_a_version_is_read_as_it_is_written(model, inner):
    place = Pinned(model, "12", inner)
    assert pinned(from_uri(place.uri, "host")) == place


@pytest.mark.parametrize(
    "path", ["vitrify-versions/churn/1", "vitrify-versions/churn/@0", "vitrify-versions/@1", "other/churn/@1", "a/@1"]
)
def test_every_other_path_is_no_version(path):
    assert pinned(path) is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/model",
        "file:///etc/passwd",
        "/etc/passwd",
        "http://169.254.169.254/latest",
        "mlflow-artifacts://elsewhere/a",
        "mlflow-artifacts://registry@elsewhere/a",
        "mlflow-artifacts:/a?b=c",
        "mlflow-artifacts:/a#b",
        "mlflow-artifacts://[/a",
        "",
    ],
)
def test_what_lies_elsewhere_is_refused(uri):
    with pytest.raises(UsageError, match="nothing that this server keeps"):
        from_uri(uri, "registry")


@pytest.mark.parametrize("uri", ["mlflow-artifacts:/../a", "mlflow-artifacts:/a/../b", "mlflow-artifacts:/"])
def test_a_uri_does_not_climb(uri):
    with pytest.raises((UsageError, MalformedError)):
        from_uri(uri, "registry")


def test_a_uri_with_the_servers_own_name_is_the_same():
    assert from_uri("mlflow-artifacts://registry:80/a/b", "registry:80") == from_uri("mlflow-artifacts:/a/b", "x")


@given(st.text(alphabet="ab/0.-~", min_size=1, max_size=6), st.text(alphabet="ab/0.-~", min_size=1, max_size=6))
def test_the_bounds_of_a_folder_hold_exactly_what_is_below_it(folder, path):
    first, behind = below(folder)
    assert (first <= path < behind) == path.startswith(f"{folder}/")
