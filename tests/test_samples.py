"""Every format's honest files: recognised as that and nothing else, described, scanned clean, drawn, packed."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from samples import samples

from vitrify.artifacts.pack import pack
from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError, VitrifyError
from vitrify.core.protocols import Drawn
from vitrify.inspection.drawing import page, rails, svg
from vitrify.inspection.identify import describe, files_at, identify, identify_one
from vitrify.inspection.scan import scan, scan_files
from vitrify.inspection.view import graph
from vitrify.testing import words

SAMPLES = samples()
HONEST = [name for name in SAMPLES if not name.endswith("!")]


def format_of(name):
    return name.partition("/")[0].rstrip("!")


DRAWN = [name for name in SAMPLES if isinstance(catalog().row("format", format_of(name)).look(), Drawn)]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Return a sample's path; each is made once a process."""
    paths: dict[str, Path] = {}

    def make(name):
        if name not in paths:
            paths[name] = SAMPLES[name](tmp_path_factory.mktemp("sample"))
        return paths[name]

    return make


def test_every_format_that_is_not_generic_has_a_sample():
    rows = {row.name for row in catalog().rows("format")}
    assert {format_of(name) for name in SAMPLES} <= rows
    ours = {"python", "hybrid", "statsmodels", "treelite"}  # of these, tests of their own make files
    assert rows - {format_of(name) for name in SAMPLES} == ours


def test_every_format_says_where_it_is_written_down():
    assert not [row.name for row in catalog().rows("format") if not row.specification.startswith("https://")]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_of_its_format_and_no_other_whatever_it_is_called(name, made, tmp_path):
    path = made(name)
    if path.is_file():
        path = Path(shutil.copy(path, tmp_path / "renamed"))
    assert [one.row.name for one in identify(files_at(path))] == [format_of(name)]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_describes_itself_in_the_common_words(name, made):
    facts = json.loads(json.dumps(describe(made(name))))
    assert facts.pop("format") == format_of(name)
    assert facts
    words.check(facts)


@pytest.mark.parametrize("name", SAMPLES)
def test_an_honest_sample_is_clean_and_one_that_brings_code_is_not(name, made):
    report = scan(made(name))
    assert (report.verdict == "clean") is not name.endswith("!"), report


@pytest.mark.parametrize("name", DRAWN)
def test_a_sample_with_a_graph_is_drawn(name, made):
    path = made(name)
    one = identify_one(files_at(path), where=name)
    if name == "keras-h5/weights":
        with pytest.raises(UnsupportedModelError, match="only weights"):
            graph(one)
        return
    drawn = graph(one)
    assert drawn.nodes
    assert rails.text(drawn)
    assert svg.svg(drawn).startswith("<?xml")
    assert page.page(drawn, name).startswith("<!doctype html>")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in HONEST if not catalog().row("format", format_of(name)).generic])
def test_a_sample_is_packed_without_an_example_and_describes_itself_in_the_store(name, made):
    path = made(name)
    artifact = pack(path, "sample")
    row = catalog().row("format", artifact.document.format)
    assert artifact.document.runtime is None or artifact.signature.inputs
    assert json.dumps(row.look().describe(artifact.files, artifact.document.entry))
    if not catalog().row("format", format_of(name)).transient:
        assert artifact.document.format == format_of(name)


def damaged(content, rng):
    """Yield truncations and bit flips of some bytes."""
    for end in sorted({0, 1, len(content) // 3, len(content) - 1}):
        yield content[:end]
    for _ in range(12):
        changed = bytearray(content)
        for _ in range(rng.choice([1, 1, 8])):
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_damaged_sample_gives_typed_errors_only(name, made, tmp_path):
    path = made(name)
    rng = random.Random(name)
    if path.is_dir():
        path = Path(shutil.copytree(path, tmp_path / "copy", symlinks=True))
        file = min(
            (file for file in path.rglob("*") if file.is_file() and file.stat().st_size),
            key=lambda file: len(file.name),
        )
    else:
        path = file = Path(shutil.copy(path, tmp_path / "copy"))
    content = file.read_bytes()
    if len(content) > 8 << 20:
        pytest.skip("large; the small ones of its format are damaged")
    for changed in damaged(content, rng):
        file.write_bytes(changed)
        files = files_at(path)
        report = scan_files(files)
        assert not [finding for finding in report.findings if finding.rule == "failed"], report
        for one in identify(files):
            try:
                one.format.describe(one.files, one.entry)
                if isinstance(one.format, Drawn):
                    one.format.graph(one.files, one.entry)
            except VitrifyError:
                continue
