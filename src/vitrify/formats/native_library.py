"""Native libraries and programs: ELF, Mach-O and PE. Whoever loads one runs it.

Specification: https://refspecs.linuxfoundation.org/elf/elf.pdf, ``mach-o/loader.h`` and ``mach-o/fat.h`` of macOS, and
https://learn.microsoft.com/windows/win32/debug/pe-format.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_ELF, _PE, _FAT = b"\x7fELF", b"PE\0\0", b"\xca\xfe\xba\xbe"
_MACH = {b"\xfe\xed\xfa\xce": ">", b"\xfe\xed\xfa\xcf": ">", b"\xce\xfa\xed\xfe": "<", b"\xcf\xfa\xed\xfe": "<"}
_MOST_SLICES = 20
"""Architectures in a fat file; where a Java class, which has the same magic, has a version above 44."""
_ELF_KINDS = {1: "object", 2: "program", 3: "shared library", 4: "core"}
_ELF_MACHINES = {
    3: "x86",
    8: "mips",
    21: "ppc64",
    40: "arm",
    62: "x86-64",
    183: "arm64",
    190: "cuda",
    224: "amdgpu",
    243: "riscv",
}
_PE_MACHINES = {0x14C: "x86", 0x8664: "x86-64", 0xAA64: "arm64", 0x1C0: "arm", 0x1C4: "arm"}
_MACH_MACHINES = {7: "x86", 0x01000007: "x86-64", 12: "arm", 0x0100000C: "arm64"}
_DLL = 0x2000


class NativeLibrary:
    """The format of native code: recognised, and never honest inside a model that does not say that it has some."""

    def detect(self, files: Files) -> bool:
        """Say whether it begins as a library or program of Linux, macOS or Windows."""
        name = only(files)
        return name is not None and head(files, 4)[:2] in _BEGINNINGS and _look(files.map(name)) is not None

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return for which system and machine it is.

        Raises:
            MalformedError: It is no native library, or cut off in its header.
        """
        name, facts = _facts(files, entry)
        return {**facts, "bytes": len(files.map(name)), "code": True}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield that it is code.

        Raises:
            MalformedError: It is no native library, or cut off in its header.
        """
        from vitrify.core.report import Finding

        name, facts = _facts(files, entry)
        message = f"machine code ({facts['container']}, {facts['machine']}) that runs when it is loaded"
        remedy = "build it yourself from its source, or get it signed from who did"
        yield Finding(place=name, message=message, rule="native-code", subject=name, remedy=remedy)


_BEGINNINGS = frozenset({_ELF[:2], b"MZ", _FAT[:2], *(magic[:2] for magic in _MACH)})


def _facts(files: Files, entry: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    name = str(entry.get("file") or only(files) or "")
    if not name:
        refuse("this directory", "is not one native library")
    found = _look(files.map(name))
    if found is None:
        refuse(name, "is no native library, or cut off in its header")
    return name, found


def _look(view: memoryview) -> dict[str, Any] | None:
    magic = bytes(view[:4])
    try:
        if magic == _ELF:
            return _elf(view)
        if magic in _MACH:
            machine = struct.unpack_from(f"{_MACH[magic]}I", view, 4)[0]
            return _said("Mach-O", _MACH_MACHINES, machine, "library or program")
        if magic == _FAT:
            slices = struct.unpack_from(">I", view, 4)[0]
            return _said("Mach-O", {}, 0, f"{slices} libraries in one") if 0 < slices < _MOST_SLICES else None
        return _pe(view) if magic[:2] == b"MZ" else None
    except struct.error:
        return None


def _elf(view: memoryview) -> dict[str, Any] | None:
    order = {b"\1": "<", b"\2": ">"}.get(bytes(view[5:6]))
    if order is None:
        return None
    kind, machine = struct.unpack_from(f"{order}HH", view, 16)
    return _said("ELF", _ELF_MACHINES, machine, _ELF_KINDS.get(kind, f"kind {kind}"))


def _pe(view: memoryview) -> dict[str, Any] | None:
    place = struct.unpack_from("<I", view, 60)[0]
    if bytes(view[place : place + 4]) != _PE:
        return None
    machine, flags = struct.unpack_from("<H", view, place + 4)[0], struct.unpack_from("<H", view, place + 22)[0]
    return _said("PE", _PE_MACHINES, machine, "shared library" if flags & _DLL else "program")


def _said(container: str, machines: Mapping[int, str], machine: int, kind: str) -> dict[str, Any]:
    return {"container": container, "machine": machines.get(machine, f"machine {machine}"), "kind": kind}
