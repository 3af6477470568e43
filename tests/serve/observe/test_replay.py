"""What a server has logged is asked again: it says the same, and another model is found."""

import json

import pytest
from click.testing import CliRunner
from seen_serving import infer, seen
from served_models import multiplier
from whole_server import PLANES

from vitrify import open as open_artifact
from vitrify.checks.record_files import read_records
from vitrify.checks.records import replay_records
from vitrify.cli.replay import command

ROWS = (1, 3, 20)


@pytest.fixture(scope="module", params=PLANES)
def folder(request, store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    with seen(request.param, store, server={"prediction_log": str(folder)}) as running:
        for rows in ROWS:
            assert infer(running.http, rows, id=f"asked-{rows}") == 200
        assert infer(running.http, 2, "text", id="asked-text") == 200
    return folder


def test_every_row_that_was_asked_is_in_the_log(folder):
    found = {}
    for _, record in read_records(folder):
        found[record.id] = found.get(record.id, 0) + len(next(iter(record.inputs.values())))
    assert found == {**{f"asked-{rows}": rows for rows in ROWS}, "asked-text": 2}


def test_the_same_model_says_the_same(folder, store):
    report = replay_records(read_records(folder), lambda digest: open_artifact(str(digest), store=store))
    assert report.passed, report
    assert len(report.details["artifacts"]) == 2


def test_another_model_is_found_at_its_rows(folder, store, tmp_path_factory):
    multiplier(store, "thrice", 3.0)
    other = open_artifact("thrice", store=store)
    times = open_artifact("times", store=store).digest
    records = [(place, record) for place, record in read_records(folder) if record.digest == str(times)]
    report = replay_records(records, lambda _: other)
    assert report.verdict == "found"
    assert {finding.place.split("asked-")[1].split(")")[0] for finding in report.findings} >= {"3", "20"}


def test_the_command_reads_the_folder(folder, store):
    done = CliRunner().invoke(command, [str(folder), "--store", str(store.root), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["verdict"] == "clean"
