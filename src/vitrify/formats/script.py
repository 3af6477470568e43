"""Scripts: text that names the program which runs it, in its first line. It runs when somebody starts it.

A script that this Python would import is Python source instead; one of Python 2 is a script.

Specification: https://man7.org/linux/man-pages/man2/execve.2.html, interpreter scripts; a Windows command file is
known by its first command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files

_SHEBANG, _BATCH = b"#!", b"@echo off"
_LINE = 256


class Script:
    """Shell scripts and their like."""

    def detect(self, files: Files) -> bool:
        """Say whether the first line names an interpreter."""
        if _interpreter(head(files, _LINE)) is None:
            return False
        from vitrify.formats.python_source import PythonSource

        return not PythonSource().detect(files)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the program that runs it."""
        where = str(entry.get("file", only(files)))
        return {"code": True, "interpreter": _of(files, where)}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield that it is a program. What a policy allows is exactly this one: its SHA-256."""
        from hashlib import sha256

        where = str(entry.get("file", only(files)))
        yield Finding(
            place=where,
            message=f"a script that {_of(files, where)} runs when somebody starts it",
            rule="script",
            subject=f"sha256:{sha256(files.map(where)).hexdigest()}",
            remedy="read it, then allow exactly this file by its digest in the policy",
        )


def _of(files: Files, where: str) -> str:
    return _interpreter(bytes(files.map(where)[:_LINE])) or refuse(where, "no script")


def _interpreter(start: bytes) -> str | None:
    line = start.splitlines()[0] if start else b""
    if line.strip().lower().startswith(_BATCH):
        return "cmd.exe"
    words = line.removeprefix(_SHEBANG).split()
    if not line.startswith(_SHEBANG) or not words or not words[0].startswith(b"/") or not line.isascii():
        return None
    return words[0].decode()
