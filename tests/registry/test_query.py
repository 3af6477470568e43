"""The query language: what it says, what it refuses, and where it points."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.errors import UsageError
from vitrify.registry.query import MAX_LENGTH, Anywhere, Comparison, Field, Not, Several, parse

ONE = Comparison(Field("stage"), "=", ("production",))
TWO = Comparison(Field("metrics", "auc"), ">=", (0.9,))
THREE = Anywhere("churn")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", None),
        ("  \n ", None),
        ("stage = production", ONE),
        ("stage=production", ONE),
        ("metrics.auc>=0.9", TWO),
        ("stage = production and metrics.auc >= 0.9", Several("and", (ONE, TWO))),
        ("stage = production AND metrics.auc >= 0.9 OR churn", Several("or", (Several("and", (ONE, TWO)), THREE))),
        ("not churn or churn", Several("or", (Not(THREE), THREE))),
        ("not (churn or churn)", Not(Several("or", (THREE, THREE)))),
        ('"order by"', Anywhere("order by")),
        (r'name = "a \"b\" \\ c"', Comparison(Field("name"), "=", ('a "b" \\ c',))),
        ("tags.'my team' != risk", Comparison(Field("tags", "my team"), "!=", ("risk",))),
        ("alias in (champion, 'and')", Comparison(Field("alias"), "in", ("champion", "and"))),
        ("name ~ team/*", Comparison(Field("name"), "~", ("team/*",))),
        ("created > 2026-11-30", Comparison(Field("created"), ">", (datetime(2026, 11, 30, tzinfo=UTC),))),
        ("parameters.depth > 3", Comparison(Field("parameters", "depth"), ">", (3.0,))),
        ("parameters.depth = 3", Comparison(Field("parameters", "depth"), "=", ("3",))),
    ],
)
def test_a_query_means(text, where):
    assert parse(text).where == where


def test_an_order_has_several_fields():
    assert parse("churn order by metrics.auc desc, name asc, number").order == (
        (Field("metrics", "auc"), True),
        (Field("name"), False),
        (Field("number"), False),
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("stage = ", 9),
        ("nobody = 1", 1),
        ("name = a b", 10),
        ("(name = a", 10),
        ("name = a)", 9),
        ("stage = Production", 9),
        ("stage != prod", 10),
        ("stage in (staging, prod)", 20),
        ("status = live", 10),
        ("metrics.auc > high", 15),
        ("metrics.auc > nan", 15),
        ("metrics.auc > inf", 15),
        ("number ~ 1*", 8),
        ("created > soon", 11),
        ("order by", 9),
        ("order by alias", 10),
        ("order by name sideways", 15),
        ('"stage" = a', 1),
        ("name = a and", 13),
        ("not", 4),
        ("stage in ()", 11),
        ("name = 'open", 8),
        ("a ! b", 3),
    ],
)
def test_what_is_no_query_is_pointed_at(text, place):
    with pytest.raises(UsageError, match=rf"at character {place}\b"):
        parse(text)


def test_a_stage_or_a_status_that_is_none_is_answered_with_those_that_are():
    with pytest.raises(UsageError, match="expected one of development, staging, production, archived"):
        parse("stage = Production")
    with pytest.raises(UsageError, match="expected one of active, deprecated, yanked, deleted"):
        parse("not status = live")
    assert parse("stage ~ prod*").where == Comparison(Field("stage"), "~", ("prod*",))


@pytest.mark.parametrize("text", ["(" * 200 + "a" + ")" * 200, "not " * 200 + "a", " and ".join("a" * 200), "a" * 5000])
def test_a_query_without_bounds_is_refused(text):
    with pytest.raises(UsageError):
        parse(text)


@given(st.text(max_size=60) | st.text("()=<>!~,\"' .andortinby", max_size=60))
def test_nothing_but_our_own_error_comes_out(text):
    with contextlib.suppress(UsageError):
        parse(text)


def test_the_longest_query_is_taken():
    assert parse("name = " + "a" * (MAX_LENGTH - 7)).where
