from __future__ import annotations

import copy
import json

import pytest
from samples.weights import PFA

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.formats.pfa import Pfa, PfaDocument
from vitrify.reading.files import HeldFiles
from vitrify.testing.formats import FormatConformance

FORMAT = Pfa()
ENTRY = {"file": "m"}


class TestPfa(FormatConformance):
    format = FORMAT

    def model(self):
        return PfaDocument(copy.deepcopy({**PFA, "doc": "größer, 大きい"}))

    def same(self, left, right):
        return left.content == right.content


def held(value):
    return HeldFiles({"m": memoryview(value if isinstance(value, bytes) else json.dumps(value).encode())})


def rules(value):
    return [(one.rule, one.subject) for one in FORMAT.hazards(held(value), ENTRY)]


def test_it_tells_what_the_document_says():
    shown = FORMAT.describe(held(PFA), ENTRY)
    assert (shown["name"], shown["method"]) == ("tree", "map")
    assert [one["type"] for one in (*shown["inputs"], *shown["outputs"])] == ["Datum", "float64"]
    assert shown["operators"] == {"*": 1, ">": 1, "m.exp": 1, "u.twice": 1}
    assert shown["cells"] == {"weights": "array of double"}
    assert shown["functions"] == ["twice"]
    assert shown["parameters"] == 2


def test_the_library_and_own_functions_are_not_found():
    assert FORMAT.detect(held(PFA))
    assert rules(PFA) == []


@pytest.mark.parametrize(
    "action",
    [
        {"os.system": ["input"]},
        {"do": [{"let": {"x": {"os.system": []}}}]},
        {"a.map": ["input", {"fcn": "os.system"}]},
        {"if": True, "then": [{"while": True, "do": {"os.system": 1}}]},
        {"new": {"x": {"os.system": []}}, "type": "Datum"},
    ],
)
def test_a_function_of_nobody_is_found_wherever_it_stands(action):
    assert rules({**PFA, "action": action}) == [("unknown-function", "os.system")]


def test_a_function_that_the_file_does_not_define_is_found():
    assert rules({**PFA, "fcns": {}}) == [("unknown-function", "u.twice")]


def test_a_cell_whose_content_lies_elsewhere_is_found():
    value = copy.deepcopy(PFA)
    value["cells"]["weights"] |= {"source": "avro", "init": "http://a.b/c.avro"}
    assert rules(value) == [("external-address", "http://a.b/c.avro")]


def test_depth_is_bounded():
    data = b'{"input": 1, "output": 2, "action": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert not FORMAT.detect(held(data))
    with pytest.raises(LimitExceededError):
        FORMAT.describe(held(data), ENTRY)


@pytest.mark.parametrize("data", [b"{}", b'{"input": 1}', b"[]", b"", b'{"input": 1, "output": 2, "action"'])
def test_other_json_is_not_detected_and_refused(data):
    assert not FORMAT.detect(held(data))
    with pytest.raises(MalformedError):
        FORMAT.describe(held(data), ENTRY)
