"""MLflow's filter strings."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import column, select
from sqlalchemy.dialects import sqlite

from vitrify.core.errors import UsageError
from vitrify.registry.api.mlflow._filters import Clause, compare, holds, order, parse

TERMS = {
    "name = 'churn'": Clause("attribute", "name", "=", "churn"),
    'name="churn"': Clause("attribute", "name", "=", "churn"),
    "attributes.status != 'x'": Clause("attribute", "status", "!=", "x"),
    "`name` = 'x'": Clause("attribute", "name", "=", "x"),
    "tags.team ILIKE '%risk%'": Clause("tag", "team", "ILIKE", "%risk%"),
    "tag.`a b` like 'x'": Clause("tag", "a b", "LIKE", "x"),
    "tags.mlflow.user <> 'me'": Clause("tag", "mlflow.user", "!=", "me"),
    "metrics.auc >= .5": Clause("metric", "auc", ">=", 0.5),
    'metrics."val/auc" < -1e-3': Clause("metric", "val/auc", "<", -0.001),
    "version_number>3": Clause("attribute", "version_number", ">", 3),
    "params.depth IN ('3', '4')": Clause("param", "depth", "IN", ("3", "4")),
    "run_id not in ('a')": Clause("attribute", "run_id", "NOT IN", ("a",)),
    "params.x IS NULL": Clause("param", "x", "IS NULL", None),
    "params.x is not null": Clause("param", "x", "IS NOT NULL", None),
    "name = 'AND name = x'": Clause("attribute", "name", "=", "AND name = x"),
}


@pytest.mark.parametrize("text", TERMS)
def test_a_comparison_is_read(text):
    assert parse(text) == (TERMS[text],)
    assert parse(f" {text} aNd {text} ") == (TERMS[text], TERMS[text])


def test_no_filter_has_no_clauses():
    assert parse("") == parse(None) == parse("  ") == ()


@pytest.mark.parametrize(
    "text",
    [
        "name",
        "name =",
        "name = churn",
        "name = 'churn",
        "name = 'a' OR name = 'b'",
        "name = 'a'; DROP TABLE versions",
        "name = 'a' --",
        "name == 'a'",
        "name = 'a' AND",
        "AND name = 'a'",
        "(name = 'a')",
        "name IN ()",
        "name IN ('a',)",
        "name IN ('a'",
        "name IS 'a'",
        "name NOT LIKE 'a'",
        "nothing.x = '1'",
        "'a' = 'a'",
        "1 = 1",
        "name = 'a' name = 'b'",
        " AND ".join(["name = 'a'"] * 51),
        "name = '" + "a" * 9000 + "'",
        "name IN (" + ",".join(["'a'"] * 501) + ")",
        "name = 0x1F",
        "\x00",
    ],
)
def test_what_is_no_filter_is_refused_in_words(text):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert len(str(caught.value)) < 500


@given(st.text(alphabet="name=' \"`.<>!()ANDORLIKEINS%,0123x_-\\", max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        clauses = parse(text)
    except UsageError:
        return
    for clause in clauses:
        try:
            compare(column("x"), clause).compile(dialect=sqlite.dialect())
        except UsageError:
            assert not isinstance(clause.value, str) or clause.operator in {"<", "<=", ">", ">="}


@given(
    st.one_of(st.none(), st.text(alphabet="abAB%_\\", max_size=8)),
    st.sampled_from(["=", "!=", "LIKE", "ILIKE", "IS NULL", "IS NOT NULL"]),
    st.text(alphabet="abAB%_\\", max_size=6),
)
def test_a_text_at_hand_is_compared_as_the_database_compares_it(text, operator, value):
    clause = Clause("tag", "k", operator, None if operator.startswith("IS") else value)
    statement = select(compare(column("x"), clause)).compile(dialect=sqlite.dialect(paramstyle="named"))
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like=ON")  # as the registry's own connections have it
    connection.execute("CREATE TABLE t (x TEXT)")
    connection.execute("INSERT INTO t VALUES (?)", (text,))
    found = connection.execute(f"{statement} FROM t", statement.params).fetchone()[0]
    connection.close()
    assert bool(found) == holds(text, clause)


def test_a_long_pattern_of_wildcards_takes_no_time():
    assert not holds("a" * 100_000, Clause("tag", "k", "LIKE", "%a" * 2000 + "%b"))


def test_an_order_is_read():
    known = {"name", "created"}
    assert order(["name", "created DESC", "metrics.auc asc", "tags.`a b` desc"], known) == (
        ("attribute", "name", True),
        ("attribute", "created", False),
        ("metric", "auc", True),
        ("tag", "a b", False),
    )


@pytest.mark.parametrize("term", ["", "nothing", "name; DROP TABLE x", "x.y DESC", "name DESC DESC", "DESC"])
def test_what_cannot_be_sorted_by_is_refused(term):
    with pytest.raises(UsageError):
        order([term], {"name"})


@pytest.mark.parametrize(
    ("clause", "numeric"),
    [
        (Clause("metric", "auc", "LIKE", "x"), True),
        (Clause("metric", "auc", "=", "x"), True),
        (Clause("attribute", "name", ">", "x"), False),
        (Clause("attribute", "name", "=", 3), False),
        (Clause("metric", "auc", "IN", ("1",)), True),
    ],
)
def test_text_is_not_compared_with_numbers(clause, numeric):
    with pytest.raises(UsageError, match=r"cannot be compared|is a number"):
        compare(column("x"), clause, numeric=numeric)
