"""Every error of ours has a status, and comes out of a client as it went into the server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core import errors as e
from vitrify.core.report import Finding, Report
from vitrify.registry.api.errors import BY_STATUS, STATUS, answer_of, error_from, said, status_of

REPORT = Report.of("policy", [Finding(place="rule 1", message="no scan", remedy="scan it")])
TREE = [kind for kind in vars(e).values() if isinstance(kind, type) and issubclass(kind, e.VitrifyError)]
HIDDEN = {e.VitrifyError, e.StoreError}


def made(kind):
    more = {}
    if kind in {e.CheckFailedError, e.DeniedError}:
        more["report"] = REPORT
    if kind is e.UntrustedCodeError:
        more["names"] = ("acme.Scale",)
    return kind("what was found", remedy="what to do", **more)


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_as_it_was_raised(kind):
    error = made(kind)
    status = status_of(error)
    assert 400 <= status < 600
    back = error_from(status, answer_of(said(error, status, "id"), status, "id").body, "https://x")
    assert type(back) is kind
    if kind not in HIDDEN:
        assert (back.message, back.remedy) == (error.message, error.remedy)
        assert getattr(back, "report", None) == getattr(error, "report", None)
        assert getattr(back, "names", None) == getattr(error, "names", None)
    else:
        assert "what was found" not in back.message


def test_every_error_has_a_row_of_its_own_so_that_none_is_forgotten():
    assert set(STATUS) == set(TREE)
    assert all(issubclass(kind, e.VitrifyError) for kind in BY_STATUS.values())


def test_what_nobody_raised_on_purpose_is_ours_to_mend():
    assert status_of(KeyError("x")) == 500


def test_each_status_brings_the_headers_that_it_needs():
    assert "Bearer" in answer_of(made(e.AuthenticationError), 401, "id").headers["www-authenticate"]
    assert answer_of(made(e.UnavailableError), 503, "id").headers["retry-after"] == "1"


@given(st.integers(400, 599), st.binary(max_size=200) | st.sampled_from([b"[" * 10_000, b'{"error":"Exception"}']))
def test_no_answer_breaks_the_client(status, data):
    assert isinstance(error_from(status, data, "https://x"), e.VitrifyError)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":"DeniedError","message":"a","remedy":"b","report":7}',
        b'{"error":"UntrustedCodeError","message":"a","remedy":"b","names":7}',
        b'{"error":"Report","message":"a","remedy":"b"}',
        b'{"error":["DeniedError"],"message":"a","remedy":"b"}',
        b'"DeniedError"',
        b"null",
    ],
)
def test_an_answer_that_only_looks_like_ours_is_taken_by_its_status(body):
    assert type(error_from(403, body, "https://x")) is e.DeniedError
