"""Triggers: what a version pins and what the log says cannot be changed, not even by SQL of another program.

Whoever owns the database can drop a trigger; then the hash chain tells (:mod:`vitrify.registry.audit`).

The first migration makes them, so nothing here ever changes: another guard comes with another migration.
"""

from __future__ import annotations

_PINNED = (
    "model_id",
    "version",
    "number",
    "digest",
    "author",
    "created",
    "metrics",
    "parameters",
    "datasets",
    "commit_id",
    "run",
)
_CHANGED_SQLITE = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _PINNED)
_CHANGED_POSTGRES = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in _PINNED)
_PINNED_SAYS = "what a version pins can never change"
_LOG_SAYS = "the log is only ever added to"

_SQLITE = (
    f"""CREATE TRIGGER versions_pinned BEFORE UPDATE ON versions WHEN {_CHANGED_SQLITE}
    BEGIN SELECT RAISE(ABORT, '{_PINNED_SAYS}'); END""",
    f"CREATE TRIGGER versions_kept BEFORE DELETE ON versions BEGIN SELECT RAISE(ABORT, '{_PINNED_SAYS}'); END",
    f"CREATE TRIGGER events_kept BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, '{_LOG_SAYS}'); END",
    f"CREATE TRIGGER events_stay BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, '{_LOG_SAYS}'); END",
)


def _function(name: str, says: str) -> str:
    body = f"BEGIN RAISE EXCEPTION '{says}'; END"
    return f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$"


_POSTGRES = (
    _function("vitrify_pinned", _PINNED_SAYS),
    _function("vitrify_log", _LOG_SAYS),
    f"""CREATE TRIGGER versions_pinned BEFORE UPDATE ON versions FOR EACH ROW WHEN ({_CHANGED_POSTGRES})
    EXECUTE FUNCTION vitrify_pinned()""",
    "CREATE TRIGGER versions_kept BEFORE DELETE ON versions FOR EACH ROW EXECUTE FUNCTION vitrify_pinned()",
    "CREATE TRIGGER events_kept BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION vitrify_log()",
    "CREATE TRIGGER events_stay BEFORE TRUNCATE ON events FOR EACH STATEMENT EXECUTE FUNCTION vitrify_log()",
)

GUARDS: dict[str, tuple[str, ...]] = {"sqlite": _SQLITE, "postgresql": _POSTGRES}
"""Statements by dialect."""
