"""Qualcomm's containers: recognised by their members or their tag, and never called clean."""

import io
import zipfile

import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats.dlc import Dlc
from vitrify.reading.files import HeldFiles

FORMAT = Dlc()
ENTRY = {"file": "model.dlc"}


def held(content):
    return HeldFiles({"model.dlc": memoryview(content)})


def archive(**members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in members.items():
            made.writestr(name, content)
    return stream.getvalue()


def test_the_converter_is_told_and_what_runs_is_not_checked():
    found = FORMAT.describe(held(graph_files.dlc()), ENTRY)
    assert found["producer"] == "Qualcomm's converter 2.20.0"
    assert found["versions"] == {"dlc": 4}
    assert set(found["members"]) == {"model", "model.params", "dlc.metadata"}
    assert found["metadata"]["converter-command"] == "snpe-onnx-to-dlc net.onnx"
    (finding,) = FORMAT.hazards(held(graph_files.dlc()), ENTRY)
    assert (finding.rule, finding.verdict) == ("native-code", "not checked")


@pytest.mark.parametrize("form", [2, 3, 4])
def test_a_part_alone_is_known_by_its_tag(form):
    part = b"\xd5\x0a" + bytes([form, 0]) + bytes(60)
    assert FORMAT.detect(held(part))
    assert FORMAT.describe(held(part), ENTRY)["versions"] == {"dlc": form}


@pytest.mark.parametrize("content", [b"", b"\xd5\x0a\x09\0" + bytes(60), archive(model=b"x"), archive(data=b"x")])
def test_other_files_are_not_taken_for_it(content):
    assert not FORMAT.detect(held(content))
    with pytest.raises(MalformedError):
        FORMAT.describe(held(content), ENTRY)
