"""ExecuTorch programs: operators and delegates by name, and what is compiled is never called clean."""

import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats.executorch import ExecuTorch
from vitrify.reading.files import HeldFiles

FORMAT = ExecuTorch()
ENTRY = {"file": "model.pte"}


def held(content):
    return HeldFiles({"model.pte": memoryview(content)})


def test_methods_operators_and_delegates_are_told():
    content = graph_files.program(("aten::add.out", "acme::scale"), ("XnnpackBackend",))
    assert FORMAT.detect(held(content))
    found = FORMAT.describe(held(content), ENTRY)
    assert found["methods"] == ["forward"]
    assert set(found["operators"]) == {"aten::add.out", "acme::scale"}
    assert found["delegates"] == ["XnnpackBackend"]
    rules = {(one.rule, one.subject, one.verdict) for one in FORMAT.hazards(held(content), ENTRY)}
    assert rules == {
        ("custom-operator", "acme::scale", "found"),
        ("native-code", "XnnpackBackend", "not checked"),
        ("unread-program", "", "not checked"),
    }


@pytest.mark.parametrize("content", [b"", b"\0\0\0\0ETxx", b"\0\0\0\0TFL3" + bytes(60)])
def test_other_files_are_not_taken_for_it(content):
    assert not FORMAT.detect(held(content))
    with pytest.raises(MalformedError):
        FORMAT.describe(held(content), ENTRY)


def test_every_truncation_is_refused():
    content = graph_files.program()
    for size in range(len(content) - 40):
        with pytest.raises(MalformedError):
            FORMAT.describe(held(content[:size]), ENTRY)
