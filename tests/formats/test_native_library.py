"""Native libraries: recognised by their headers, and always found."""

import struct
import sys
from pathlib import Path

import pytest
from samples import graph_files

from vitrify.core.errors import MalformedError
from vitrify.formats.native_library import NativeLibrary
from vitrify.reading.files import HeldFiles

FORMAT = NativeLibrary()
ENTRY = {"file": "lib"}


def held(content):
    return HeldFiles({"lib": memoryview(content)})


def pe(machine=0x8664, flags=0x2000):
    return b"MZ" + bytes(58) + struct.pack("<I4sH16xH", 64, b"PE\0\0", machine, flags)


MACH = struct.pack("<II", 0xFEEDFACF, 0x0100000C) + bytes(24)
FAT = struct.pack(">II", 0xCAFEBABE, 2) + bytes(40)


@pytest.mark.parametrize(
    ("content", "container", "machine", "kind"),
    [
        (graph_files.elf(), "ELF", "x86-64", "shared library"),
        (pe(), "PE", "x86-64", "shared library"),
        (pe(0xAA64, 0), "PE", "arm64", "program"),
        (MACH, "Mach-O", "arm64", "library or program"),
        (FAT, "Mach-O", "machine 0", "2 libraries in one"),
    ],
)
def test_libraries_of_every_system_are_found(content, container, machine, kind):
    assert FORMAT.detect(held(content))
    found = FORMAT.describe(held(content), ENTRY)
    assert (found["container"], found["machine"], found["kind"]) == (container, machine, kind)
    (finding,) = FORMAT.hazards(held(content), ENTRY)
    assert (finding.rule, finding.subject, finding.verdict) == ("native-code", "lib", "found")


def test_the_interpreter_that_runs_this_is_one():
    assert FORMAT.detect(held(Path(sys.executable).read_bytes()[:4096]))


@pytest.mark.parametrize(
    "content",
    [b"", b"MZ", b"MZ" + bytes(100), b"\x7fELF", b"\x7fELF\1\3" + bytes(40), struct.pack(">II", 0xCAFEBABE, 61)],
    ids=["empty", "short", "no PE", "cut off", "order", "Java class"],
)
def test_other_files_are_not_taken_for_one(content):
    assert not FORMAT.detect(held(content))
    with pytest.raises(MalformedError):
        FORMAT.describe(held(content), ENTRY)
