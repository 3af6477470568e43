"""SARIF: what code-scanning pages read."""

from __future__ import annotations

import json

import jsonschema
import pytest

from vitrify.checks.scan.sarif import to_sarif
from vitrify.core.report import Finding, Report

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": TEXT,
        "defaultConfiguration": {"properties": {"level": {"enum": ["none", "note", "warning", "error"]}}},
    },
}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "format": "uri-reference"}},
                },
                "region": {"required": ["startLine"], "properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        }
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
    "properties": {
        "level": {"enum": ["warning", "error"]},
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "suppressions": {"items": {"required": ["kind"], "properties": {"kind": {"enum": ["inSource", "external"]}}}},
    },
}
SUBSET = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "version", "rules"],
                                "properties": {"rules": {"type": "array", "items": RULE}},
                            }
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
"""What the SARIF 2.1.0 schema and GitHub's upload ask of the parts that we write."""

FOUND = Finding(
    place="m.pkl:opcode 12",
    message="would use os.system",
    rule="untrusted-global",
    subject="os.system",
    remedy="do not",
)
UNKNOWN = Finding(place="x y.bin", message="unknown", rule="unknown-format", verdict="not checked")


def log(*reports, **options):
    made = to_sarif([(path, report) for path, report in reports], **options)
    jsonschema.validate(made, SUBSET)
    json.dumps(made)
    return made["runs"][0]


def test_a_finding_is_an_error_with_its_rule_file_place_and_offset():
    run = log(("models/m.pkl", Report.of("scan", [FOUND])))
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("untrusted-global", "error")
    assert "os.system" in result["message"]["text"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "models/m.pkl"
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "m.pkl:opcode 12"
    assert result["properties"]["byteOffset"] == 12
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "untrusted-global"


def test_what_was_not_checked_is_a_warning_and_a_clean_file_is_nothing():
    run = log(("x y.bin", Report.of("scan", [UNKNOWN])), ("c", Report.of("scan", [])))
    (result,) = run["results"]
    assert result["level"] == "warning"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "x%20y.bin"


def test_what_a_policy_allows_is_a_suppressed_result_with_the_reason():
    allowed = [{"place": "m.pkl", "rule": "untrusted-global", "subject": "acme.Scale", "reason": "ours"}]
    (result,) = log(("m.pkl", Report.of("scan", [], {"allowed": allowed})))["results"]
    assert result["suppressions"][0]["justification"] == "ours"


def test_in_a_folder_the_file_is_found_from_the_place():
    finding = FOUND.replace(place="sub/z.zip!m.pkl:opcode 12")
    (result,) = log(("models", Report.of("scan", [finding])), directories=frozenset({"models"}))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/sub/z.zip"


@pytest.mark.parametrize("moved", ["m.pkl:opcode 99", "m.pkl:opcode 12"])
def test_a_finding_keeps_its_fingerprint_where_only_its_offset_moves(moved):
    first = log(("m.pkl", Report.of("scan", [FOUND])))["results"][0]["partialFingerprints"]
    second = log(("m.pkl", Report.of("scan", [FOUND.replace(place=moved)])))["results"][0]["partialFingerprints"]
    assert first == second


def test_two_findings_have_two_fingerprints():
    results = log(("m.pkl", Report.of("scan", [FOUND, FOUND.replace(place="m.pkl:opcode 40")])))["results"]
    assert len({one["partialFingerprints"]["vitrify/v1"] for one in results}) == 2


def test_a_rule_of_a_third_party_is_listed_too():
    run = log(("m", Report.of("scan", [FOUND.replace(rule="acme-special")])))
    assert run["tool"]["driver"]["rules"][0]["id"] == "acme-special"
    assert log(("m", Report.of("scan", [FOUND.replace(rule="")])))["results"][0]["ruleId"] == "finding"
