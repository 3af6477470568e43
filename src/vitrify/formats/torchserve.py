"""TorchServe model archives: a model with the Python code that serves it, as ZIP or as compressed TAR.

``MAR-INF/MANIFEST.json`` names the handler and the model's file. A handler is Python that the server imports: code by
design, so each is a finding; every other member is looked at by itself.

Specification: https://github.com/pytorch/serve/blob/master/model-archiver/README.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import LimitExceededError, MalformedError
from vitrify.core.report import Finding
from vitrify.formats._archives import one_file, parts_of
from vitrify.reading import compressed
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse
from vitrify.reading.tar import Tar, is_tar
from vitrify.reading.zip import Zip, ends_like_zip, opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vitrify.core.protocols import Files

MANIFEST = "MAR-INF/MANIFEST.json"
_LOOK = 64 * 1024
_MAX_MANIFEST = 1 << 20
_BUILT_IN = frozenset(
    {"image_classifier", "image_segmenter", "object_detector", "text_classifier", "text_handler", "base_handler"}
)
_FILES = ("handler", "modelFile", "serializedFile", "requirementsFile")


class TorchServe:
    """The format of ``torch-model-archiver``."""

    def detect(self, files: Files) -> bool:
        """Say whether an archive has a manifest; of a compressed one, whether its beginning names it."""
        name = only(files)
        if name is None:
            return False
        view = files.map(name)
        try:
            if ends_like_zip(view):
                return MANIFEST in opened(view, where=name)
            if is_tar(view):
                return MANIFEST in Tar(view, where=name)
        except LimitExceededError:
            return True
        except MalformedError:
            return False
        return compressed.codec(view) == "gzip" and MANIFEST.encode() in compressed.begin(view, _LOOK)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the manifest says, and the members."""
        archive, where = _open(files, entry)
        manifest = _manifest(archive, where)
        model = manifest["model"]
        return {
            "producer": str(manifest.get("createdBy") or "torch-model-archiver"),
            "library": "torch",
            "name": model.get("modelName"),
            "versions": {"archiver": manifest.get("archiverVersion"), "model": model.get("modelVersion")},
            "runtime": manifest.get("runtime"),
            "metadata": model,
            "members": [{"name": member.name, "bytes": member.size} for member in archive.members.values()],
            "needs": _code(archive, model) or [f"handler {model.get('handler')}"],
            "code": bool(_code(archive, model)),
        }

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterable[Finding]:
        """Yield what the archive hides, the code in it, a handler from elsewhere, and packages that it installs."""
        archive, where = _open(files, entry)
        yield from archive.findings()
        model = _manifest(archive, where)["model"]
        for name in _code(archive, model):
            yield _finding(f"{where}: {name}", f"{name} runs when the archive is served", "python-code", name)
        handler = str(model.get("handler") or "")
        if handler and handler.partition(":")[0] not in archive.members and handler not in _BUILT_IN:
            message = f"serves with {handler:.200}, which is not in the archive: whatever has that name runs"
            yield _finding(f"{where}: {MANIFEST}", message, "python-code", handler)
        if requirements := model.get("requirementsFile"):
            message = f"names packages ({requirements:.200}) that the server may install, and so run, before it loads"
            yield _finding(f"{where}: {MANIFEST}", message, "installs-packages", str(requirements))

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield every member but the code and the manifest."""
        archive, where = _open(files, entry)
        known = {MANIFEST, *_code(archive, _manifest(archive, where)["model"])}
        rest = [name for name in archive.members if name not in known and not name.endswith("/")]
        yield from parts_of(archive, rest, where=where)


def _open(files: Files, entry: Mapping[str, Any]) -> tuple[Zip | Tar, str]:
    view, where = one_file(files, entry)
    if ends_like_zip(view):
        return opened(view, where=where), where
    return Tar(view if is_tar(view) else compressed.expand(view, where=where), where=where), where


def _manifest(archive: Zip | Tar, where: str) -> dict[str, Any]:
    from vitrify.reading.json import parse

    found = parse(archive.read(MANIFEST), where=f"{where}: {MANIFEST}", most=_MAX_MANIFEST)
    if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
        refuse(where, "a manifest without a model")
    strange = [key for key in _FILES if not isinstance(found["model"].get(key, ""), str | None)]
    if strange:
        refuse(where, f"a manifest whose {strange[0]} is no name")
    return found


def _code(archive: Zip | Tar, model: Mapping[str, Any]) -> list[str]:
    """Return the members that are imported: the handler, the model's file, and every other Python module."""
    named = {str(model.get("handler") or "").partition(":")[0], str(model.get("modelFile") or "")}
    return [name for name in archive.members if name in named or name.endswith((".py", ".pyc", ".pyd", ".so"))]


def _finding(place: str, message: str, rule: str, subject: str) -> Finding:
    remedy = "read that code; if you trust it, allow it by this name"
    return Finding(place=place, message=message, rule=rule, subject=subject, remedy=remedy)
