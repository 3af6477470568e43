"""A URL is understood in one way, or refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import ReferenceNotFoundError, UsageError, VitrifyError
from vitrify.registry.api.locating import fields_of, segment, segments_of
from vitrify.registry.api.routing import Answer, Match, Route, Router

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda text: text not in {".", ".."})


def test_a_path_is_split_before_it_is_decoded():
    assert segments_of(b"/v1/models/team%2Fchurn") == ["v1", "models", "team/churn"]
    assert segments_of(b"/") == []
    assert segments_of(b"/a%25b/%E6%BC%A2") == ["a%b", "漢"]


@pytest.mark.parametrize(
    "path",
    [
        *(b"/a/..", b"/a/%2e%2e/b", b"/%2E", b"/.", b"/a%00b", b"/a%0d%0aX: 1", b"/%7f"),  # dots, control characters
        *(b"/%ff", b"/%c0%ae", b"/%ed%a0%80", b"/%", b"/%2", b"/%zz", b"/a b", b'/"', b"/\xe9"),  # no encoding of text
        *(b"", b"a", b"*", b"http://x/"),
    ],
)
def test_a_path_that_means_nothing_or_two_things_is_refused(path):
    with pytest.raises(UsageError):
        segments_of(path)


@pytest.mark.parametrize("path", [b"//", b"//v1/models", b"/v1//models", b"/v1/models/"])
def test_a_path_with_an_empty_segment_leads_nowhere(path):
    with pytest.raises(ReferenceNotFoundError):
        segments_of(path)


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_every_name_is_a_segment_and_comes_back(names):
    assert segments_of("".join(f"/{segment(name)}" for name in names).encode()) == names


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_of_dots_is_sent_so_that_nobody_folds_it_and_is_refused(name):
    assert "%2E" in segment(name)
    with pytest.raises(UsageError):
        segments_of(f"/{segment(name)}".encode())


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data):
    for read, given_ in ((segments_of, b"/" + data), (fields_of, data)):
        with suppress(VitrifyError):
            read(given_)


def test_a_query_keeps_every_value_in_its_order():
    assert fields_of(b"a=1&b=%26+x&a=2&c&=") == {"a": ["1", "2"], "b": ["& x"], "c": [""], "": [""]}
    assert fields_of(b"") == {}
    for wrong in (b"a=%ff", b"a=%", b"a=\x00", b'a="', b"&".join([b"a=1"] * 200)):
        with pytest.raises(UsageError):
            fields_of(wrong)


def endpoint(call):
    return Answer()


ROUTES = [
    Route("GET", "/events/head", "reader", endpoint, "head"),
    Route("GET", "/events/{id}", "reader", endpoint, "one"),
    Route("DELETE", "/events/{id}", "admin", endpoint, "remove"),
    Route("GET", "/files/{run}/{path*}", "reader", endpoint, "file"),
    Route("PUT", "/files/{run}/{path*}", "writer", endpoint, "put"),
    Route("GET", "/", "reader", endpoint, "page"),
]


@pytest.mark.parametrize(
    ("method", "path", "label", "fields"),
    [
        ("GET", "/events/head", "head", {}),
        ("HEAD", "/events/head", "head", {}),
        ("GET", "/events/7", "one", {"id": "7"}),
        ("DELETE", "/events/head", "remove", {"id": "head"}),
        ("GET", "/files/r/a/b", "file", {"run": "r", "path": "a/b"}),
        ("PUT", "/files/r%2Fs/a%25", "put", {"run": "r/s", "path": "a%"}),
        ("GET", "/", "page", {}),
    ],
)
def test_the_most_exact_route_answers(method, path, label, fields):
    match = Router(ROUTES).match(method, segments_of(path.encode()))
    assert isinstance(match, Match)
    assert (match.route.label, match.path) == (label, fields)


def test_a_path_without_a_route_says_which_methods_there_are():
    router = Router(ROUTES)
    assert router.match("POST", ["events", "7"]) == {"GET", "DELETE"}
    assert router.match("GET", ["none"]) == frozenset()
    assert router.match("GET", ["files", "r"]) == frozenset()
    assert router.match("GET", ["files", "r", "a/../b"]) == frozenset()  # %2F makes no path of a rest


def test_two_routes_for_the_same_call_are_refused():
    with pytest.raises(AssertionError, match="two routes"):
        Router([ROUTES[1], Route("GET", "/events/{other}", "reader", endpoint)])
