from __future__ import annotations

import json

import pytest

from vitrify.cli import main


@pytest.mark.slow
def test_the_demo_on_the_real_table_proves_its_result_and_draws_it(tmp_path, capsys):
    main(["demo", "--table-only", "--output", str(tmp_path / "out"), "--json"])
    (summary,) = json.loads(capsys.readouterr().out)
    assert summary["verdict"] == "clean"
    assert "<svg" in (tmp_path / "out" / "cars-parity.html").read_text()
    assert (tmp_path / "out" / "cars-parity.svg").read_text().startswith("<svg")
