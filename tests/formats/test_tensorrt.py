"""TensorRT engines: recognised, the version read, and never called clean."""

import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats.tensorrt import TensorRt
from vitrify.reading.files import HeldFiles

FORMAT = TensorRt()
ENTRY = {"file": "model.plan"}


def held(content):
    return HeldFiles({"model.plan": memoryview(content)})


def test_the_version_is_read_and_the_code_is_not_checked():
    found = FORMAT.describe(held(graph_files.plan()), ENTRY)
    assert found["versions"] == {"tensorrt": "10.3.0.26", "header": 0, "serialization": 239}
    assert found["code"]
    (finding,) = FORMAT.hazards(held(graph_files.plan()), ENTRY)
    assert (finding.rule, finding.verdict) == ("native-code", "not checked")


def test_metadata_before_the_plan_is_read():
    assert FORMAT.detect(held(graph_files.wrapped_plan()))
    found = FORMAT.describe(held(graph_files.wrapped_plan()), ENTRY)
    assert found["metadata"] == {"task": "detect", "imgsz": [640, 640]}
    assert found["versions"]["tensorrt"] == "10.3.0.26"


def test_a_version_that_cannot_be_is_not_told():
    assert FORMAT.describe(held(graph_files.plan((0, 0, 0, 0))), ENTRY)["versions"]["tensorrt"] == ""


@pytest.mark.parametrize("content", [b"", b"ftr", b"trtf" + bytes(60), b"\x10\0\0\0{}" + bytes(60), b"\xff\xff\0\0{"])
def test_other_files_are_not_taken_for_it(content):
    assert not FORMAT.detect(held(content))
    with pytest.raises(MalformedError):
        FORMAT.describe(held(content), ENTRY)


def test_a_header_that_is_cut_off_is_refused():
    with pytest.raises(MalformedError, match="cut off"):
        FORMAT.describe(held(graph_files.plan()[:20]), ENTRY)
