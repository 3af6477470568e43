"""AOTInductor packages: a model that PyTorch compiled to machine code, in a ``.pt2`` file.

What runs is the shared library in it; the sources and the metadata beside it are for people. So it is code by design,
and every library is a finding.

Specification: https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats._archives import one_file, parts_of
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files
    from vitrify.formats._torch.archive import Package

_LIBRARIES = (".so", ".dll", ".dylib", ".pyd", ".o", ".cubin", ".hsaco", ".spv")
_TEXTS = (".cpp", ".json", ".h", ".cu", ".cubin.txt")
_NOTES = ("archive_format", "archive_version", "byteorder", ".data/version", ".data/serialization_id", "version")


class Aoti:
    """The format of ``torch._inductor.aoti_compile_and_package``."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is a ``.pt2`` with a compiled model."""
        name = only(files)
        package = None if name is None else _package(files.map(name), name)
        return package is not None and bool(package.compiled)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return the models, for which machine they were compiled, and their libraries."""
        package = _open(files, entry)
        compiled = [name.removeprefix(f"{package.root}data/aotinductor/") for name in package.compiled]
        return {
            "producer": "PyTorch AOTInductor",
            "library": "torch",
            "models": sorted({name.partition("/")[0] for name in compiled}),
            "metadata": _metadata(package),
            "libraries": [
                {"name": name, "bytes": package.archive.members[name].size}
                for name in package.compiled
                if name.endswith(_LIBRARIES)
            ],
            "sources": [name for name in package.compiled if name.endswith((".cpp", ".cu"))],
            "needs": ["permission to run the machine code in it"],
            "code": True,
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what the archive hides, and each library."""
        package = _open(files, entry)
        yield from package.archive.findings()
        for name in package.compiled:
            if name.endswith(_LIBRARIES):
                yield Finding(
                    place=f"{package.where}: {name}",
                    message=f"contains machine code {name.rpartition('/')[2]} that runs when the model is loaded",
                    rule="native-code",
                    subject=name,
                    remedy="compile it yourself from the exported program, or get it signed by who did",
                )

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield what is neither a library nor a text: weights, pickles, and what nobody expects."""
        package = _open(files, entry)
        known = {package.root + note for note in _NOTES}
        rest = [name for name in package.archive.members if name not in known and not name.endswith("/")]
        compiled = {name for name in package.compiled if name.endswith((*_LIBRARIES, *_TEXTS))}
        yield from parts_of(package.archive, [name for name in rest if name not in compiled], where=package.where)


def _package(view: memoryview, where: str) -> Package | None:
    from vitrify.formats._torch.archive import package

    return package(view, where=where)


def _open(files: Files, entry: Mapping[str, Any]) -> Package:
    view, where = one_file(files, entry)
    return _package(view, where) or refuse(where, "no .pt2 file")


def _metadata(package: Package) -> dict[str, str]:
    """Return what the JSON files beside the libraries say: device, platform, instruction set."""
    from vitrify.reading.json import parse

    found: dict[str, str] = {}
    for name in package.compiled:
        if name.endswith("_metadata.json"):
            about = parse(package.archive.read(name), where=f"{package.where}: {name}", most=1 << 20)
            if not isinstance(about, dict):
                refuse(package.where, f"metadata that is no JSON object: {name:.200}")
            found |= {str(key)[:100]: str(value)[:200] for key, value in about.items()}
    return found
