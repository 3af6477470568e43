"""The scan as a verb, as a check on artifacts, and as an attestation."""

from __future__ import annotations

import os
import pickle
import stat

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import vitrify
from vitrify.checks.scan import Scan, attest_scan, scan, scan_target
from vitrify.checks.scan.policy import Policy
from vitrify.core.attestation import SCAN
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import UsageError
from vitrify.core.protocols import Subject
from vitrify.reading.files import HeldFiles
from vitrify.testing.checks import CheckConformance

SCRIPT = b"#!/bin/sh\necho\n"


def document(name):
    return Document(schema=SCHEMA, format=name, runtime=None)


def subject(data, name="file"):
    return Subject(HeldFiles({name: memoryview(data)}), document("text"), {})


class TestConformance(CheckConformance):
    name = "scan"

    def check(self):
        return Scan()

    def clean(self):
        return subject(b"text"), None

    def faulty(self):
        return subject(SCRIPT), None

    def unanswerable(self):
        return subject(b"\x00\x01\x02\x03"), None


def test_the_verb_is_public_and_takes_exact_subjects(tmp_path):
    path = tmp_path / "install.sh"
    path.write_bytes(SCRIPT)
    report = vitrify.scan(path)
    assert report.verdict == "found"
    decided = scan(path, allow=[report.findings[0].subject])
    assert decided.verdict == "clean"
    assert decided.details["allowed"][0]["rule"] == "script"


def test_a_missing_file_is_an_error_for_the_verb_and_not_checked_among_many(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        scan(tmp_path / "missing")
    assert scan_target(tmp_path / "missing", Policy()).verdict == "not checked"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_not_checked(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(b"text")
    path.chmod(stat.S_IWUSR)
    report = scan_target(path, Policy())
    assert (report.verdict, report.findings[0].rule) == ("not checked", "unreadable")


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert scan_target(tmp_path / "pipe", Policy()).verdict == "not checked"


@pytest.fixture
def artifact():
    X = np.arange(20.0).reshape(10, 2)
    return vitrify.save(LogisticRegression().fit(X, X[:, 0] > 5), "model", example=X)


def test_an_artifact_of_ours_is_clean_and_the_statement_stays_beside_it(artifact):
    report = attest_scan(artifact)
    assert report.verdict == "clean", str(report)
    (statement,) = [one for one in artifact.attestations if one.predicate_type == SCAN]
    assert statement.predicate["verdict"] == "clean"
    assert statement.predicate["producer"].startswith("vitrify ")


def test_what_the_user_allows_is_taken_on_an_artifact_too():
    from vitrify.core.protocols import Allow

    data = pickle.dumps(os.getcwd)
    files = HeldFiles({"model.pkl": memoryview(data)})
    report = Scan().run(Subject(files, document("pickle"), {}), None)
    assert report.verdict == "found"
    names = [finding.subject for finding in report.findings]
    assert Scan().run(Subject(files, document("pickle"), {}, Allow.of(names)), None).verdict == "clean"


def test_a_folder_format_in_an_artifact_is_seen_without_our_own_files_beside_it():
    import torch

    import vitrify
    from vitrify.checks.scan import Scan

    source = vitrify.save(torch.nn.Linear(2, 1).eval(), "net", example=torch.ones(4, 2))
    report = Scan().run(vitrify.convert(source, "openvino").subject(), None)
    assert report.passed, report
    assert report.details["formats"]["openvino"] == 1
