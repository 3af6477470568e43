"""The log holds together, the tables say what it says, and whoever changes either behind its back is found."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from measured import MIB, assert_linear, memory
from registries import acting, register, statement
from registry_life import live
from sqlalchemy import text, update

from vitrify.core.errors import ForgedError, MalformedError, ReferenceNotFoundError
from vitrify.registry import requests as r
from vitrify.registry.audit import MAX_FINDINGS, verify
from vitrify.registry.audit.checkpoint import read, sign
from vitrify.registry.database import schema
from vitrify.registry.database.guards import GUARDS
from vitrify.registry.events import START, hash_of
from vitrify.registry.registry import Registry
from vitrify.trust.keys import PrivateKey


@pytest.fixture(scope="module")
def _lived(request, tmp_path_factory):
    from registries import Registries

    registries = Registries(request, tmp_path_factory.mktemp("lived"))
    backend = registries.open()
    live(backend)
    backend.database.engine.dispose()
    yield backend
    registries.close()


@pytest.fixture
def attacked(_lived, registries, tmp_path):
    """A copy of a registry with a past, whose triggers an attacker has dropped."""
    import shutil

    from vitrify.registry.database import Database

    with _lived.database.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(_lived.database.url.database, tmp_path / "copy.db")
    database = Database(tmp_path / "copy.db")
    disarm(database)
    yield database
    database.close()


def disarm(database):
    dialect = "sqlite" if database.is_sqlite else "postgresql"
    with database.write() as connection:
        for statement in GUARDS[dialect]:
            words = statement.split()
            if words[1] == "TRIGGER":
                on = f" ON {words[words.index('ON') + 1]}" if dialect == "postgresql" else ""
                connection.execute(text(f"DROP TRIGGER {words[2]}{on}"))


def execute(database, *statements):
    """Do what an attacker would, who minds no constraint."""
    if database.is_sqlite:
        with database.engine.connect() as connection:
            raw = connection.connection.driver_connection
            raw.execute("PRAGMA foreign_keys=OFF")
            raw.execute("PRAGMA ignore_check_constraints=ON")
            for statement in statements:
                raw.execute(statement)
        database.engine.dispose()
    else:
        with database.write() as connection:
            for statement in statements:
                connection.execute(text(statement))


def places(report):
    return [finding.place for finding in report.findings]


def test_a_registry_with_a_past_verifies(backend):
    live(backend)
    report = verify(backend.database)
    assert report.passed, report
    assert report.details["events"] == Registry(backend).head().seq
    assert report.details["versions"] == 5


def test_an_empty_registry_verifies(backend):
    assert verify(backend.database).details["events"] == 0


UNDECIDED = {"blobs", "deliveries", "uploads"}
OTHERS = {
    ("head", "id"): "there is one head",
    ("models", "id"): "who it is, its time says",
    ("versions", "id"): "who it is, model and number say",
    ("attestations", "id"): "who it is, subject and digest say",
}
"""Columns that say nothing."""
TABLES = [
    (table.name, column.name)
    for table in schema.metadata.sorted_tables
    for column in table.columns
    if table.name not in UNDECIDED and not table.name.startswith("mlflow_") and (table.name, column.name) not in OTHERS
]


def _other(value, column):
    if value is None:
        return "12345" if "INT" in str(column.type) or "DOUBLE" in str(column.type) else "'other'"
    if isinstance(value, int | float):
        return str(value + 1000)
    if value in {"[]", "{}"}:
        return "'[1]'"
    return "'" + (value[:-1] + chr(ord(value[-1]) ^ 1) if value else "x").replace("'", "''") + "'"


@pytest.mark.parametrize(("table", "column"), TABLES, ids=[".".join(one) for one in TABLES])
def test_whoever_changes_one_value_is_found(attacked, table, column):
    described = schema.metadata.tables[table]
    with attacked.read() as connection:
        row = connection.execute(described.select().order_by(*described.primary_key)).mappings().first()
    where = " AND ".join(f"\"{key.name}\" = '{row[key.name]}'" for key in described.primary_key)
    other = _other(row[column], described.c[column])
    execute(attacked, f'UPDATE "{table}" SET "{column}" = {other} WHERE {where}')
    report = verify(attacked)
    assert not report.passed
    assert any(place.startswith((table, "versions", "events", "head", "labels")) for place in places(report)), report


@pytest.mark.parametrize("table", sorted({table for table, _ in TABLES}))
def test_whoever_deletes_a_row_is_found(attacked, table):
    described = schema.metadata.tables[table]
    key = next(iter(described.primary_key)).name
    execute(attacked, f'DELETE FROM "{table}" WHERE "{key}" = (SELECT max("{key}") FROM "{table}")')
    assert not verify(attacked).passed


@pytest.mark.parametrize("table", sorted({table for table, _ in TABLES} - {"head", "events"}))
def test_whoever_adds_a_row_is_found(attacked, table):
    described = schema.metadata.tables[table]
    names = [column.name for column in described.columns]
    copied = ", ".join(_added(table, column) for column in described.columns)
    quoted = ", ".join(f'"{name}"' for name in names)
    execute(attacked, f'INSERT INTO "{table}" ({quoted}) SELECT {copied} FROM "{table}" LIMIT 1')
    assert not verify(attacked).passed


def _added(table, column):
    """Return what a copied row has: another key, and otherwise the same."""
    new = {"created", "number", "name", "version", "digest", "alias", "key"}
    if column.primary_key or column.name in new:
        return f"\"{column.name}\" || '9'" if "TEXT" in str(column.type) else f'"{column.name}" + 990'
    if table == "versions" and column.name == "stage":
        return "'archived'"
    return f'"{column.name}"'


def rechain(database, first):
    """Make the hashes anew from an event on, and the head, as who knows how they are made would."""
    with database.write() as connection:
        rows = connection.execute(text(f"SELECT * FROM events WHERE seq >= {first - 1} ORDER BY seq")).all()
        last = rows[0].hash if first > 1 else START
        for row in rows[1:] if first > 1 else rows:
            own = hash_of(last, row.seq, row.time, row.actor, row.kind, row.model, row.version, row.facts)
            connection.execute(
                text("UPDATE events SET previous = :previous, hash = :hash WHERE seq = :seq"),
                {"previous": last, "hash": own, "seq": row.seq},
            )
            last = own
        seq, when = connection.execute(text("SELECT seq, time FROM events ORDER BY seq DESC LIMIT 1")).one()
        connection.execute(update(schema.head), {"seq": seq, "hash": last, "time": when})


def test_two_events_that_were_swapped_are_found(attacked):
    execute(
        attacked,
        "UPDATE events SET seq = -5 WHERE seq = 5",
        "UPDATE events SET seq = 5 WHERE seq = 6",
        "UPDATE events SET seq = 6 WHERE seq = -5",
    )
    assert {"events seq 5", "events seq 6"} <= set(places(verify(attacked)))


def test_one_hash_made_anew_is_found_at_the_event_behind_it(attacked):
    execute(attacked, "UPDATE events SET actor = 'eve' WHERE seq = 5")
    with attacked.write() as connection:
        row = connection.execute(text("SELECT * FROM events WHERE seq = 5")).one()
        own = hash_of(row.previous, *row[:7])
        connection.execute(text("UPDATE events SET hash = :own WHERE seq = 5"), {"own": own})
    assert "events seq 6" in places(verify(attacked))


def test_a_chain_made_anew_from_a_changed_event_on_is_found_in_the_tables(attacked):
    execute(attacked, "UPDATE events SET actor = 'eve' WHERE kind = 'version.created' AND version = '1'")
    rechain(attacked, 1)
    report = verify(attacked)
    assert not any(place.startswith(("events", "head")) for place in places(report))
    assert [finding.rule for finding in report.findings if "versions churn/eu:1" in finding.place] == ["changed"]


def test_a_log_that_was_made_anew_together_with_its_tables_is_found_by_who_kept_a_head(registries):
    backend = registries.open()
    registry = Registry(backend)
    register(backend, description="a lie")
    kept = registry.head()
    disarm(backend.database)
    execute(
        backend.database,
        "UPDATE events SET facts = replace(facts, 'a lie', 'a lye')",
        "UPDATE versions SET description = 'a lye'",
    )
    rechain(backend.database, 1)
    assert verify(backend.database).passed
    assert places(verify(backend.database, {kept.seq: kept.hash})) == [f"events seq {kept.seq}"]


def test_a_tail_that_was_cut_off_cleanly_is_found_by_who_kept_a_head(registries):
    backend = registries.open()
    register(backend)
    Registry(backend).promote("churn", "1", "production")
    kept = Registry(backend).head()
    disarm(backend.database)
    execute(
        backend.database,
        f"DELETE FROM events WHERE seq = {kept.seq}",
        "DELETE FROM productions",
        "UPDATE versions SET stage = 'development', updated = created",
    )
    rechain(backend.database, 1)
    assert verify(backend.database).passed
    report = verify(backend.database, {kept.seq: kept.hash})
    assert [finding.rule for finding in report.findings] == ["checkpoint"]


def test_time_that_goes_backwards_is_found(attacked):
    execute(attacked, "UPDATE events SET time = 5 WHERE seq = 7")
    assert "time" in {finding.rule for finding in verify(attacked).findings}


@pytest.mark.parametrize("facts", ["", "[]", "null", "7", '{"id": []}', "[" * 5000, '{"to": {}}'])
def test_facts_that_are_none_are_findings_and_no_crash(attacked, facts):
    execute(attacked, f"UPDATE events SET facts = '{facts}'")
    report = verify(attacked)
    assert not report.passed
    assert len(report.findings) <= MAX_FINDINGS


def test_content_that_a_version_needs_and_nobody_has_is_found(attacked):
    execute(attacked, "DELETE FROM blobs")
    assert "dangling" in {finding.rule for finding in verify(attacked).findings}


def test_triggers_keep_the_log_and_the_pinned_columns_while_they_stand(backend):
    from vitrify.core.errors import VitrifyError

    register(backend)
    for attack in (
        "UPDATE events SET actor = 'eve'",
        "DELETE FROM events",
        "UPDATE versions SET digest = 'x'",
        "DELETE FROM versions",
    ):
        with pytest.raises(VitrifyError, match=r"added to|never change"), backend.database.write() as connection:
            connection.execute(text(attack))
    assert verify(backend.database).passed


def test_verifying_sees_one_state_while_others_write(registries):
    from threading import Thread

    backend = registries.open("postgresql+disk")
    register(backend)
    over = False

    def write():
        number = 0
        while not over:
            backend.do(r.SetAlias(model="churn", alias=["one", "two", "three"][number % 3], version="1"))
            backend.do(r.UpdateModel(model="churn", description=f"{number}"))
            number += 1

    thread = Thread(target=write)
    thread.start()
    try:
        reports = [verify(backend.database) for _ in range(8)]
    finally:
        over = True
        thread.join()
    assert all(report.passed for report in reports), reports


def test_a_checkpoint_says_whether_the_log_is_still_the_same(registry):
    register(registry.backend)
    key, stranger = PrivateKey.generate(), PrivateKey.generate()
    data = sign(registry, [key]).to_json()
    checkpoint, signed = read(data, [stranger.public, key.public])
    assert signed == (key.keyid,)
    assert registry.do(r.ListEvents(kind="log.signed")).events[0].facts["seq"] == checkpoint.seq
    register(registry.backend, seed="later")
    assert verify(registry.backend.database, checkpoint.heads).passed
    with pytest.raises(ForgedError, match="nobody signed"):
        read(data, [stranger.public])
    other = json.loads(data) | {"payloadType": "text/plain"}
    with pytest.raises(MalformedError, match="not of a checkpoint"):
        read(json.dumps(other).encode(), [key.public])


def test_a_checkpoint_of_another_registry_does_not_fit(registries):
    first, second = (Registry(registries.open()) for _ in range(2))
    for one in (first, second):
        register(one.backend)
    checkpoint, _ = read(sign(first, [key := PrivateKey.generate()]).to_json(), [key.public])
    assert "events seq 1" in places(verify(second.backend.database, checkpoint.heads))


def test_an_empty_log_has_no_head_to_sign(registries):
    with pytest.raises(ReferenceNotFoundError, match="empty"):
        sign(Registry(registries.open()), [PrivateKey.generate()])


def test_what_was_in_production_when_who_approved_it_and_on_which_evidence(registry):
    backend = registry.backend
    first, _ = register(backend, seed="a"), register(backend, seed="b")
    evidence = registry.attach(first.digest, statement(first.digest, "https://example.org/metrics", auc=0.9).encode())
    asked = registry.request_promotion("churn", "1", "production")
    acting(backend, "bob", "approver").decide(asked.id, "approve", "good figures")
    during = datetime.now(UTC)
    registry.promote("churn", "2", "production")
    after = datetime.now(UTC) + timedelta(seconds=1)
    then, now = registry.production_at("churn", during), registry.production_at("churn", after)
    assert (then.version, then.digest, then.by) == ("1", first.digest, "bob")
    assert [(one.who, one.comment) for one in then.approvals] == [("bob", "good figures")]
    assert then.evidence == (evidence.digest,)
    assert then.until == now.since
    assert (now.version, now.until, now.approvals) == ("2", None, ())
    with pytest.raises(ReferenceNotFoundError, match="nothing in production"):
        registry.production_at("churn", datetime(2020, 1, 1, tzinfo=UTC))


def updated_often(backend, count):
    """Register a model, and write an honest log of so many updates of it, faster than by doing them."""
    register(backend)
    rows = []
    seq, last = [(row.seq, row.hash) for row in Registry(backend).events()][-1]
    now = time.time_ns() // 1000 + 60_000_000
    for number in range(count):
        seq += 1
        facts = json.dumps({"description": f"text {number}"}, separators=(",", ":"))
        columns = (seq, now + number, "ann", "model.updated", "churn", None, facts)
        rows.append((*columns, last, last := hash_of(last, *columns)))
    with backend.database.write() as connection:
        connection.exec_driver_sql("INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?)", rows)
        connection.execute(update(schema.head), {"seq": seq, "hash": last, "time": now + count - 1})
        columns = {"description": f"text {count - 1}", "updated": now + count - 1}
        connection.execute(update(schema.models), columns)
    return backend.database


def test_twice_as_many_events_take_twice_the_calls_and_little_memory(registries):
    databases = {count: updated_often(registries.open(), count) for count in (10_000, 20_000)}
    assert_linear(lambda count: verify(databases[count]), 10_000)
    with memory() as measured:
        report = verify(databases[20_000])
    assert report.passed, report
    assert measured.used < 4 * MIB  # the events themselves, held, are three times as many


def test_the_commands_read_check_sign_and_ask(registries, tmp_path, monkeypatch):
    from vitrify.cli.audit import command

    backend = registries.open()
    register(backend)
    Registry(backend).promote("churn", "1", "production")
    monkeypatch.setenv("VITRIFY_REGISTRY", str(backend.database.url.database))
    key = PrivateKey.generate()
    key.save(tmp_path / "key.pem", unencrypted=True)
    (tmp_path / "key.pub").write_bytes(key.public.pem)

    def run(*arguments, code=0):
        done = CliRunner().invoke(command, list(map(str, arguments)))
        assert done.exit_code == code, (done.output, done.exception)
        return done.output

    assert "version.staged" in run("log")
    assert [event["kind"] for event in json.loads(run("log", "--json", "--kind", "model.created"))] == ["model.created"]
    assert json.loads(run("log", "--json", "--all").splitlines()[0])["seq"] == 1
    assert run("verify").startswith("audit: clean")
    run("sign", "--key", tmp_path / "key.pem", "-o", tmp_path / "head.json")
    check = ("verify", "--checkpoint", tmp_path / "head.json", "--key", tmp_path / "key.pub")
    assert json.loads(run(*check, "--json"))["verdict"] == "clean"
    assert "churn:1" in run("production", "churn")
    now = datetime.now(UTC).isoformat()
    assert json.loads(run("production", "churn", "--at", now, "--json"))["version"] == "1"
    disarm(backend.database)
    execute(backend.database, "UPDATE versions SET author = 'eve'")
    assert "author is 'eve'; the log says 'ann'" in run("verify", code=11)


def test_long_names_and_versions_are_no_finding_and_are_found_where_they_were_changed(registries):
    backend = registries.open()
    name, version = "risk/" + "-".join(["long"] * 20), f"1.0.0+{'b' * 80}"
    register(backend, name, version=version)
    assert verify(backend.database).passed
    disarm(backend.database)
    execute(backend.database, "UPDATE versions SET version = version || 'x'")
    assert not verify(backend.database).passed


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "0001-01-01", "1969-12-31T23:59:59Z"])
def test_nothing_was_in_production_at_the_beginning_of_time(registries, at):
    backend = registries.open()
    register(backend)
    with pytest.raises(ReferenceNotFoundError, match="nothing in production"):
        backend.do(r.ProductionAt(model="churn", at=datetime.fromisoformat(at)))
