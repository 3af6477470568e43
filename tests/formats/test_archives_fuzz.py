"""A short run of the fuzzer; ``python tests/fuzz/archives.py SECONDS`` runs it for longer."""

from __future__ import annotations

import pytest
from fuzz import archives


@pytest.mark.filterwarnings("ignore")  # what PyTorch warns about is not ours
def test_damaged_archives_and_files_of_pytorch_give_typed_errors_and_nothing_that_others_read_differently():
    count, accepted, longest = archives.main(3, 7)
    assert count > 10
    assert accepted
    assert longest <= archives.SECONDS_A_FILE
