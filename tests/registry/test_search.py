"""Searching finds what the query says, page by page, in its order; on every database alike."""

from fnmatch import fnmatchcase
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registries import acting, artifact

from vitrify.core.errors import UsageError
from vitrify.registry import requests as r
from vitrify.registry.handlers.search import _statement
from vitrify.registry.query import Anywhere, Not, Several, parse

NAMES = ("churn", "risk/churn", "fraud_a", "fraudxa")
TEAMS = (None, "risk", "ops", "50%_")
AUCS = (None, 0.5, 0.75, 1.0, -2.0)


@pytest.fixture(scope="module")
def filled(request, tmp_path_factory):
    """One registry a database, filled once: searching changes nothing."""
    from registries import Registries

    made = Registries(request, tmp_path_factory.mktemp("search"))
    found = {}

    def fill(kind):
        if kind not in found:
            backend = made.open(kind)
            digests = [artifact(backend, seed) for seed in ("a", "b")]
            numbers = count()
            for name in NAMES:
                for team in TEAMS:
                    for auc in AUCS[:: 2 if team else 1]:
                        number = next(numbers)
                        backend.do(
                            r.CreateVersion(
                                model=name,
                                digest=digests[number % 2],
                                tags={"team": team} if team else {},
                                metrics={} if auc is None else {"auc": auc},
                                parameters={"depth": str(number % 5)},
                                description=f"number {number} of 100%",
                            )
                        )
            backend.do(r.Promote(model="churn", version="3", stage="production"))
            backend.do(r.SetAlias(model="churn", alias="champion", version="2"))
            backend.do(r.SetStatus(model="churn", version="4", status="yanked"))
            backend.do(r.DeleteVersion(model="churn", version="5"))
            found[kind] = backend
        return found[kind]

    yield fill
    made.close()


@pytest.fixture(params=["sqlite+disk", "postgresql+disk"])
def backend(request, filled):
    return filled(request.param)


def everything(backend, query, limit=1000):
    after, found = "", []
    while after is not None:
        page = backend.do(r.Search(query=query, limit=limit, after=after))
        assert len(page.versions) <= limit
        found += page.versions
        after = page.next
    return found


def value(version, field):
    if field.key is not None:
        return getattr(version, field.name).get(field.key)
    return getattr(version, field.name)


def compares(found, comparison):
    wanted = comparison.values[0]
    if found is None:
        return False
    found = float(found) if isinstance(wanted, float) else found
    return {
        "in": lambda: found in comparison.values,
        "~": lambda: fnmatchcase(found, wanted),
        "=": lambda: found == wanted,
        "!=": lambda: found != wanted,
        "<": lambda: found < wanted,
        ">=": lambda: found >= wanted,
    }[comparison.operator]()


def holds(version, term):
    """What the language says, without SQL."""
    match term:
        case Several():
            return (all if term.operator == "and" else any)(holds(version, one) for one in term.terms)
        case Not():
            return not holds(version, term.term)
        case Anywhere():
            return term.word in version.model or term.word in version.description
        case _:
            return compares(version.model if term.field.name == "name" else value(version, term.field), term)


COMPARISONS = st.one_of(
    st.builds("name {} {}".format, st.sampled_from(["=", "!="]), st.sampled_from(NAMES)),
    st.builds("name ~ {}".format, st.sampled_from(["fraud_*", "*churn", "f?aud_a", "*%*"])),
    st.builds("metrics.auc {} {}".format, st.sampled_from(["=", "!=", "<", ">="]), st.sampled_from([0.5, 0.75, -2.0])),
    st.builds("tags.team {} '{}'".format, st.sampled_from(["=", "!="]), st.sampled_from(TEAMS[1:])),
    st.builds("parameters.depth >= {}".format, st.integers(0, 5)),
    st.builds("number < {}".format, st.integers(0, 20)),
    st.builds("stage in ({}, production)".format, st.sampled_from(["development", "staging"])),
    st.sampled_from(["churn", "'of 100%'", "'number 1'", "'%'", "_"]),
)
QUERIES = st.recursive(
    COMPARISONS,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["and", "or"]), inner)
        | st.builds("not ({})".format, inner)
    ),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(query=QUERIES)
def test_what_is_found_is_what_the_query_says(backend, query):
    whole = everything(backend, "")
    expected = [version for version in whole if holds(version, parse(query).where)]
    assert everything(backend, query) == expected


def test_postgresql_reads_the_versions_of_a_model_in_the_order_of_an_index(registries):
    backend = registries.open("postgresql+disk")
    statement, _ = _statement("name = churn and metrics.auc > 0.5 order by number desc", ("*",), 100)
    plan = statement.compile(backend.database.engine, compile_kwargs={"literal_binds": True})
    with backend.database.read() as connection:
        for other in ("seqscan", "sort"):
            connection.exec_driver_sql(f"SET LOCAL enable_{other} = off")
        rows = connection.exec_driver_sql(f"EXPLAIN {plan}".replace("%", "%%")).scalars().all()
    assert any("Index Scan Backward using one_version_a_number" in row for row in rows), rows


@pytest.mark.parametrize("limit", [1, 7, 1000])
@pytest.mark.parametrize(
    ("order", "key"),
    [
        ("", lambda version: (-version.created.timestamp(),)),
        ("order by name, number", lambda version: (version.model, version.number)),
        ("order by metrics.auc desc, name", lambda version: (-version.metrics.get("auc", -9e9), version.model)),
        ("order by metrics.auc, number desc", lambda version: (version.metrics.get("auc", 9e9), -version.number)),
        (
            "order by tags.team, created desc",
            lambda version: (version.tags.get("team", ""), -version.created.timestamp()),
        ),
    ],
)
def test_pages_one_after_another_are_the_whole_in_its_order(backend, order, key, limit):
    whole = everything(backend, order, limit)
    assert len({(version.model, version.version) for version in whole}) == len(whole)
    assert len(whole) == len(everything(backend, ""))
    assert [key(version) for version in whole] == sorted(map(key, whole))


def test_deleted_versions_are_found_only_by_who_asks_for_them(backend):
    assert not [version for version in everything(backend, "name = churn") if version.status == "deleted"]
    assert [version.version for version in everything(backend, "status = deleted")] == ["5"]


def test_aliases_stages_and_formats_are_found(backend):
    assert [version.version for version in everything(backend, "alias = champion")] == ["2"]
    assert [version.version for version in everything(backend, "stage = production")] == ["3"]
    assert everything(backend, "format = onnx") == []
    assert everything(backend, "format ~ *") == []  # these artifacts say no format


def test_who_may_see_some_models_finds_those(backend):
    bob = acting(backend, "bob", "reader", models=("risk/*", "fraud_?"))
    assert {version.model for version in bob.search()} == {"risk/churn", "fraud_a"}
    assert [model.name for model in bob.models()] == ["fraud_a", "risk/churn"]


@pytest.mark.parametrize("after", ["x", "W10=", "WzFd", "é", "bnVsbA==", "WyJhIiwgIiIsIDEsIDIsIDNd"])
def test_a_page_that_nobody_returned_is_refused(backend, after):
    with pytest.raises(UsageError, match="no page begins there"):
        backend.do(r.Search(query="", after=after))


@pytest.mark.parametrize(
    "hostile", ["'; DROP TABLE versions; --", "x' OR '1'='1", "\\", "%", "_", '" or ""="', "{}", ":model"]
)
def test_values_are_values_and_never_sql(backend, hostile):
    quoted = '"' + hostile.replace("\\", "\\\\").replace('"', '\\"') + '"'
    for query in (f"name = {quoted}", f"tags.{quoted} = {quoted}", f"name ~ {quoted}", f"format = {quoted}"):
        assert everything(backend, query) == []
    assert everything(backend, "")
