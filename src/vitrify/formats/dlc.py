"""Qualcomm's deep learning containers (``.dlc``): a graph for its runtimes, weights, and what was compiled for a chip.

Qualcomm documents no format. What is known (https://github.com/lutzroeder/netron, ``source/dlc.js``): a ZIP file with
``model``, ``model.params`` and ``dlc.metadata``, lines of ``key=value``; or one of its parts alone, which begins with
a tag and the number of its form. A QNN context binary has no tag that is known: what is compiled is kept in here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import VitrifyError
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse
from vitrify.reading.zip import ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_TAG = b"\xd5\x0a"
_FORMS = (2, 3, 4)
_METADATA = "dlc.metadata"
_PARTS = ("model", "model.params")
_KNOWN = ("model-version", "model-copyright", "converter-command", "converter-version", "quantizer-command")
_LONGEST = 1 << 20
"""Bytes of metadata that are read, at most."""


class Dlc:
    """The format of Qualcomm's containers: recognised, and no more."""

    def detect(self, files: Files) -> bool:
        """Say whether it begins with the tag of a part, or is a ZIP file with the members of a container."""
        start, name = head(files, 8), only(files)
        if start[:2] == _TAG:
            return _form(start) in _FORMS
        if name is None or start[:2] != b"PK" or not ends_like_zip(view := files.map(name)):
            return False
        try:
            members = opened(view, where=name).members
        except VitrifyError:
            return False
        return _METADATA in members or all(part in members for part in _PARTS)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the form, the members, and what the metadata says of the converter.

        Raises:
            MalformedError: It is no container, or cut off.
        """
        name = _name(files, entry)
        view = files.map(name)
        facts: dict[str, Any] = {"bytes": len(view), "code": True, "needs": ["Qualcomm's runtime: SNPE or QNN"]}
        if bytes(view[:2]) == _TAG:
            return {**facts, "versions": {"dlc": _form(view)}}
        archive = opened(view, where=name)
        said = _said(bytes(archive.read(_METADATA))) if _METADATA in archive else {}
        form = _form(archive.read("model")) if "model" in archive else 0
        return {
            **facts,
            "producer": " ".join(("Qualcomm's converter", said.get("converter-version", ""))).strip(),
            "versions": {"dlc": form} if form else {},
            "members": {member.name: member.size for member in archive.members.values()},
            "metadata": {key: said[key] for key in _KNOWN if key in said},
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield that what runs was not looked at.

        Raises:
            MalformedError: It is no container, or cut off.
        """
        from vitrify.core.report import Finding

        name = _name(files, entry)
        size = len(files.map(name))
        message = f"{size} bytes of a graph, and perhaps of code for one chip, that only Qualcomm's runtimes read"
        remedy = "build the container yourself, from the model that it was made of"
        yield Finding(place=name, message=message, rule="native-code", verdict="not checked", remedy=remedy)


def _name(files: Files, entry: Mapping[str, Any]) -> str:
    name = str(entry.get("file") or only(files) or "")
    if not name or not Dlc().detect(files):
        refuse(name or "this directory", "is no container of Qualcomm's: neither its tag nor its members are there")
    return name


def _form(view: bytes | memoryview) -> int:
    """Return the number of a part's form, zero where it has no tag."""
    return int.from_bytes(view[2:4], "little") if bytes(view[:2]) == _TAG else 0


def _said(content: bytes) -> dict[str, str]:
    """Return the lines ``key=value`` of the metadata."""
    lines = content[:_LONGEST].decode("utf-8", "replace").splitlines()
    return {key: value for key, sign, value in (line.partition("=") for line in lines) if sign}
