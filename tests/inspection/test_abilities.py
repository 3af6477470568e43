"""What can be done with each format, as a table."""

from __future__ import annotations

from vitrify.core.catalog import catalog
from vitrify.inspection.abilities import abilities, markdown


def test_the_protocols_and_the_row_say_what_can_be_done():
    told = {row.name: abilities(row) for row in catalog().rows("format")}
    assert told["onnx"] == ("inspect", "scan", "view", "load", "write")
    assert told["gguf"] == ("inspect", "scan")
    assert told["torch"] == ("inspect", "scan", "load")
    assert all(able[:2] == ("inspect", "scan") for able in told.values())


def test_the_table_has_a_line_a_format_with_its_specification():
    rows = [catalog().row("format", name) for name in ("gguf", "skops")]
    lines = markdown(rows).splitlines()
    assert lines[0] == "| format | what | inspect | scan | view | load | write |"
    assert lines[2].startswith("| [`gguf`](https://")
    assert lines[2].endswith("| ✓ | ✓ |  |  |  |")
    assert lines[3].endswith("| ✓ | ✓ |  | ✓ | ✓ |")
