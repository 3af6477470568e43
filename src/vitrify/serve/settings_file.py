"""The file of the settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from vitrify.core.errors import UsageError
from vitrify.serve.settings import Settings

_MOST = 16 * 1024 * 1024
_NAMES = (r"unknown field `([^`]+)`", r"(\w+) is .*; (?:expected|it is)", r"(\w+)`$")
"""What in a message is the name of the setting; the first that is found."""


def read(path: str | Path) -> Settings:
    """Return the settings in a TOML file.

    Raises:
        UsageError: It cannot be read, is no TOML, or holds a setting that there is none of; the message says where.
    """
    try:
        data = Path(path).read_bytes()
        if len(data) > _MOST:
            msg = f"{path} has {len(data)} bytes, more than settings can have"
            raise UsageError(msg)
        raw = tomllib.loads(data.decode())
    except OSError as error:
        msg = f"the settings {path} cannot be read: {error.strerror or error}"
        raise UsageError(msg) from error
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        msg = f"the settings {path} are no TOML: {error}"
        raise UsageError(msg) from error
    try:
        return Settings.from_builtins(raw, where=str(path))
    except UsageError as error:
        if not (line := _line(data.decode(), error.message)):
            raise
        msg = f"{error.message} (line {line})"
        raise UsageError(msg, remedy=error.remedy) from error


def _line(text: str, message: str) -> int:
    """Return the line of the setting that a message is about; 0 where that is not certain."""
    found = next(filter(None, (re.search(pattern, message) for pattern in _NAMES)), None)
    if found is None:
        return 0
    begins = re.compile(rf"""\s*["']?{re.escape(found[1])}["']?\s*=""")
    lines = [number for number, line in enumerate(text.splitlines(), start=1) if begins.match(line)]
    return lines[0] if len(lines) == 1 else 0
