"""What lies beside a model: text, pictures, code. Each is told by its content, and only the code is a finding."""

from __future__ import annotations

import io
import json
import os
import py_compile
import subprocess
import sys
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured import PEAK
from samples import plain

from vitrify.core.errors import MalformedError, VitrifyError
from vitrify.formats.media import Media
from vitrify.formats.python_source import MAX_PARSED, PythonSource
from vitrify.formats.script import Script
from vitrify.formats.text import Text
from vitrify.reading.files import HeldFiles, LocalFiles

FORMATS = {"text": Text, "media": Media, "python-source": PythonSource, "script": Script}
ENTRY = {"file": "file"}


def held(data):
    return HeldFiles({"file": memoryview(data if isinstance(data, bytes) else data.encode())})


@pytest.mark.parametrize("name", sorted(name for name in plain.SAMPLES if name.partition("/")[0] in FORMATS))
def test_each_sample_is_of_its_format_and_only_code_is_found(name, tmp_path):
    path = plain.SAMPLES[name](tmp_path)
    files, entry = LocalFiles({path.name: path}), {"file": path.name}
    kind = name.partition("/")[0]
    found = {other for other, cls in FORMATS.items() if cls().detect(files)}
    assert found - {"text"} == {kind} - {"text"}
    about = FORMATS[kind]().describe(files, entry)
    json.dumps(about)
    findings = list(FORMATS[kind]().hazards(files, entry))
    assert bool(findings) == name.endswith("!")
    assert bool(about.get("code")) == name.endswith("!")
    assert all(finding.subject.startswith("sha256:") for finding in findings)


@pytest.mark.parametrize("data", [b"text\0", b"text" + b"\x80\x81", b"\xff\xfea", b"\x1e", b"t" * 2**20 + b"\0"])
def test_what_only_begins_as_text_is_none(data):
    assert not Text().detect(held(data))
    for ask in (Text().describe, Text().hazards):
        with pytest.raises(MalformedError, match="no text"):
            ask(held(data), ENTRY)


def test_a_character_on_the_border_of_two_reads_is_text():
    assert Text().describe(held("a" * (2**20 - 1) + "ü\n"), ENTRY)["encoding"] == "utf-8"


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_whatever_a_person_writes_is_text(text):
    assert Text().detect(held(text))
    assert Text().describe(held(text.encode("utf-8-sig")), ENTRY)["lines"] == 0


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "from x import (\n    y,\n)\n",
        "x = __import__('os').system('echo')",
        "{print(1)}",
        "def f():\n    pass",
        "class A: x = 1",
        "\ufeffimport os\n",
        "# -*- coding: latin-1 -*-\nprint('é')\n",
        "# \x1b\x01\nimport os\n",
        "# coding: utf-7\n+AGkAbQBwAG8AcgB0- os\n",
        "lambda: 0\nprint()",
        "#!/usr/bin/env python3\nimport os\n",
    ],
)
def test_source_that_does_something_is_code(source):
    assert PythonSource().detect(held(source))
    assert not Script().detect(held(source))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import taxes from the books\n",
        "define: x\n",
        "name (of a thing)\n",
        "[section]\nkey = 'value'\n",
        '{"a": [1, 2, true], "call": "os.system()"}',
        "a,b\n1,2\n",
        "'''only words, import os'''\n",
        "x = 3\n",
        "import os\n\0",
        "The class of models (see [1]) that we import:\n",
        plain.README,
        "word\n" * 5000,
    ],
)
def test_text_that_does_nothing_is_no_code(text):
    assert not PythonSource().detect(held(text))


@pytest.mark.parametrize("filler", ["# comment\n", "x = [1, 2, 3]\n", "'''\n```\n'''\n"])
def test_long_source_is_code_too(filler):
    source = filler * (MAX_PARSED // len(filler) + 1) + "import os\nos.system('x')\n"
    assert PythonSource().detect(held(source))


def test_a_long_page_with_code_between_fences_is_text():
    assert not PythonSource().detect(held(plain.README * 300))


def test_compiled_modules_are_code(tmp_path):
    (tmp_path / "m.py").write_text("import os\n")
    compiled = py_compile.compile(str(tmp_path / "m.py"), cfile=str(tmp_path / "m.pyc"))
    files = LocalFiles({"m.pyc": tmp_path / "m.pyc"})
    assert compiled
    assert PythonSource().describe(files, {"file": "m.pyc"})["kind"] == "bytecode"
    (finding,) = PythonSource().hazards(files, {"file": "m.pyc"})
    assert "bytecode" in finding.message
    assert PythonSource().detect(held(b"\x03\xf3\r\n\x00\x00\x00\x00c\x00"))  # Python 2.7
    assert not PythonSource().detect(held("id\r\n0123cat\r\n"))


@pytest.mark.parametrize(
    "source",
    ["x=" + "1+" * 30000 + "1", "x=" + "-" * 60000 + "1", "a" + ".b" * 30000, "(" * 60000, "f" + "()" * 30000 + "\n"],
)
def test_source_made_to_break_the_parser_gives_an_answer(source):
    PythonSource().detect(held(source))
    assert PythonSource().detect(held("import os\n" + source)) in {True, False}


@pytest.mark.slow
def test_source_of_any_length_takes_no_more_memory_than_the_longest_that_is_parsed():
    """Parsed, what is eight times as long would take some hundred mebibytes more."""
    source = "import a\n" + "f(a,b,c)\n" * (MAX_PARSED // 9 - 1)
    code = f"""
from vitrify.formats.python_source import PythonSource
from vitrify.reading.files import HeldFiles
import ast
source = {source!r}.encode()
assert PythonSource().detect(HeldFiles({{"file": memoryview(source)}}))
before = peak()
assert PythonSource().detect(HeldFiles({{"file": memoryview(source * 8)}}))
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-"], input=PEAK + code, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 1024


@pytest.mark.parametrize(
    ("data", "program"),
    [
        (b"#!/bin/bash -e\n", "/bin/bash"),
        (b"#! /usr/bin/env node\n", "/usr/bin/env"),
        (b"#!/usr/bin/python2\nprint 'x'\n", "/usr/bin/python2"),
        (b"@echo off\r\ndir\r\n", "cmd.exe"),
        (b"  @ECHO OFF\r\n", "cmd.exe"),
    ],
)
def test_a_script_is_known_by_its_first_line(data, program):
    assert Script().describe(held(data), ENTRY)["interpreter"] == program


@pytest.mark.parametrize("data", [b"#! a comment\n", b"#!", b"", b"# text\n", b"\n#!/bin/sh\n"])
def test_a_comment_is_no_script(data):
    assert not Script().detect(held(data))
    with pytest.raises(MalformedError, match="no script"):
        Script().describe(held(data), ENTRY)


PICTURES = {"png": plain.png(), "gif": plain.GIF, "jpeg": plain.JPEG, "webp": plain.WEBP}


@pytest.mark.parametrize("kind", PICTURES)
def test_bytes_behind_a_picture_are_found_and_handed_on(kind):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", "b")
    data = PICTURES[kind]
    assert list(Media().parts(held(data), ENTRY)) == []
    files = held(data + stream.getvalue())
    (finding,) = Media().hazards(files, ENTRY)
    assert finding.rule == "hidden-bytes"
    ((place, rest),) = Media().parts(files, ENTRY)
    assert place == f"bytes from {len(data)}"
    assert rest.read("rest") == stream.getvalue()


@pytest.mark.parametrize("kind", PICTURES)
def test_a_picture_that_is_cut_off_is_malformed(kind):
    data = PICTURES[kind]
    for end in range(12, len(data) - 1):
        with pytest.raises(MalformedError, match="cut off"):
            list(Media().hazards(held(data[:end]), ENTRY))


@given(st.sampled_from([*PICTURES.values(), b"#!/bin/sh\n", b"import os\n"]), st.data())
def test_flipped_bits_give_nothing_but_our_own_errors(data, draw):
    at = draw.draw(st.integers(0, len(data) * 8 - 1))
    broken = bytearray(data)
    broken[at // 8] ^= 1 << at % 8
    for cls in FORMATS.values():
        files = held(bytes(broken) + draw.draw(st.binary(max_size=20)))
        assert cls().detect(files) in {True, False}
        try:
            cls().describe(files, ENTRY)
            list(cls().hazards(files, ENTRY))
        except VitrifyError:
            pass


def test_nothing_of_the_source_runs(tmp_path):
    marker = tmp_path / "marker"
    source = f"open({os.fspath(marker)!r}, 'w')\n"
    assert list(PythonSource().hazards(held(source), ENTRY))
    assert not marker.exists()
