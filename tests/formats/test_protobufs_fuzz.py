from __future__ import annotations

from fuzz import protobufs

from vitrify.reading.files import HeldFiles


def test_three_seconds_of_changed_files_raise_nothing_else():
    count, failures = protobufs.fuzz(3, 7)
    assert count
    assert not failures, failures[0][2]


def test_each_honest_file_is_of_one_format():
    for name, data in protobufs.seeds():
        files = HeldFiles({"file": memoryview(data)})
        assert [known for known, form in protobufs.FORMATS.items() if form.detect(files)] == [name]


def test_files_that_are_cut_off_anywhere_raise_nothing_else():
    for name, data in protobufs.seeds():
        for end in range(0, min(len(data), 10_000), 100):
            protobufs.look(name, data[:end])
