"""Models: made, described, renamed, given up; the same on every database."""

from __future__ import annotations

import pytest
from registries import acting, register

from vitrify.core.errors import ConflictError, DeniedError, ReferenceNotFoundError, UsageError
from vitrify.registry import requests as r


def test_a_model_is_made_once_and_says_what_was_said(registry):
    made = registry.create_model("team/churn", description="who leaves", licence="MIT", tags={"team": "risk"})
    assert registry.model("team/churn") == made
    assert (made.owner, made.licence, made.tags, made.versions, made.production) == (
        "ann",
        "MIT",
        {"team": "risk"},
        0,
        None,
    )
    with pytest.raises(ConflictError, match="there is a model called"):
        registry.create_model("team/churn")


def test_what_is_not_there_is_not_found(registry):
    for ask in (
        lambda: registry.model("churn"),
        lambda: registry.update_model("churn", description="x"),
        lambda: registry.rename_model("churn", "other"),
        lambda: registry.delete_model("churn"),
        lambda: registry.version("churn"),
        lambda: registry.rollback("churn"),
        lambda: registry.production_at("churn"),
    ):
        with pytest.raises(ReferenceNotFoundError, match="no model"):
            ask()


def test_tags_are_added_changed_and_taken_away_one_by_one(registry):
    registry.create_model("churn", tags={"a": "1", "b": "2"})
    changed = registry.update_model("churn", tags={"a": None, "b": "3", "c": "4", "never": None})
    assert changed.tags == {"b": "3", "c": "4"}
    head = registry.head()
    assert registry.update_model("churn", tags={"b": "3"}) == changed
    assert registry.head() == head  # nothing changed, so nothing happened


def test_a_renamed_model_takes_versions_aliases_and_history_along(registry):
    register(registry.backend)
    registry.promote("churn", "1", "production")
    registry.set_alias("churn", "champion", "1")
    assert registry.rename_model("churn", "leavers").production == "1"
    assert registry.version("leavers", "@champion").version == "1"
    assert registry.production_at("leavers").version == "1"
    with pytest.raises(ReferenceNotFoundError):
        registry.model("churn")
    registry.create_model("churn")  # the name is free


def test_a_name_that_is_or_was_anothers_is_not_taken_over(registry):
    for name in ("a", "b", "c"):
        registry.create_model(name)
    registry.delete_model("c")
    for name in ("b", "c", "a"):
        with pytest.raises(ConflictError, match="is, or was, another's"):
            registry.rename_model("a", name)


def test_a_deleted_model_is_gone_and_its_version_names_are_never_given_again(registry):
    register(registry.backend, version="1.0.0")
    registry.delete_model("churn")
    assert not list(registry.models())
    assert register(registry.backend).number == 2
    with pytest.raises(ConflictError, match=r"1\.0\.0"):
        register(registry.backend, version="1.0.0")


def test_a_model_in_production_is_not_deleted(registry):
    register(registry.backend)
    registry.promote("churn", "1", "production")
    with pytest.raises(ConflictError, match="in production"):
        registry.delete_model("churn")
    registry.promote("churn", "1", "archived")
    registry.delete_model("churn")


def test_models_come_in_pages_in_the_order_of_their_names(registry):
    names = [f"m{number}" for number in (3, 1, 2)] + ["M", "m_1", "team/m"]
    for name in names:
        registry.create_model(name)
    first = registry.do(r.ListModels(limit=4))
    rest = registry.do(r.ListModels(limit=4, after=first.next))
    found = [model.name for model in (*first.models, *rest.models)]
    assert sorted(found) == sorted(names)
    assert rest.next is None
    assert [model.name for model in registry.models("m_*")] == ["m_1"]
    assert [model.name for model in registry.models("team/?")] == ["team/m"]


@pytest.mark.parametrize(
    "name", ["", "../x", "a//b", "a b", "a:1", "a@b", "/etc", "a\x00b", "\u202eevil", "x" * 300, "a\nb", "%2e%2e"]
)
def test_a_name_that_could_be_taken_for_something_else_is_refused(registry, name):
    with pytest.raises(UsageError):
        registry.create_model(name)
    assert registry.head().seq == 0


@pytest.mark.parametrize(
    "about",
    [
        {"description": "x" * 300_000},
        {"description": "nul\x00"},
        {"tags": {"k" * 300: "v"}},
        {"tags": {str(number): "v" for number in range(2000)}},
        {"owner": "\ud800"},
    ],
    ids=["long", "nul", "long key", "many", "half a pair"],
)
def test_text_that_a_database_or_a_screen_does_not_take_is_refused(registry, about):
    with pytest.raises(UsageError):
        registry.create_model("churn", **about)


def test_nobody_touches_or_sees_models_beside_his_own(registry):
    backend = registry.backend
    register(backend, "team/churn")
    register(backend, "other")
    eve = acting(backend, "eve", "writer", models=("team/*",))
    assert [model.name for model in eve.models()] == ["team/churn"]
    for ask in (
        lambda: eve.model("other"),
        lambda: eve.update_model("other", owner="eve"),
        lambda: eve.create_model("mine"),
        lambda: eve.version("other", "1"),
        lambda: register(eve.backend, "mine"),
    ):
        with pytest.raises(DeniedError):
            ask()
    assert {event.model for event in eve.events()} == {"team/churn"}


@pytest.mark.parametrize(
    ("role", "request_"),
    [
        ("reader", r.CreateModel(name="x")),
        ("reader", r.Promote(model="churn", version="1", stage="staging")),
        ("approver", r.CreateModel(name="x")),
        ("writer", r.Rollback(model="churn")),
        ("writer", r.Decide(id=1, verdict="approve")),
        ("writer", r.Promote(model="churn", version="1", stage="production")),
        ("writer", r.RenameModel(model="churn", name="x")),
        ("writer", r.DeleteModel(model="churn")),
        ("writer", r.DeleteVersion(model="churn", version="1")),
        ("writer", r.CreateToken(who="eve", roles=("admin",))),
        ("approver", r.ListTokens()),
    ],
    ids=lambda one: one if isinstance(one, str) else type(one).__name__,
)
def test_what_a_role_does_not_grant_is_denied(registries, role, request_):
    backend = registries.open()
    register(backend)
    with pytest.raises(DeniedError, match="needs the role"):
        acting(backend, "eve", role).do(request_)
