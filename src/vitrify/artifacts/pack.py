"""Pack: a model file, recognised by its content, becomes a sealed artifact; nothing that is in it runs.

What a file is decides how it is kept. A pickle and its like are read by the pickle machine, and the model that comes
out is saved in its own format: the pickle itself is left behind. A format of data that is read into a live model is
read and saved as :func:`vitrify.save` does it. Everything else, and what lacks the example that a signature is made
from, is sealed byte for byte as it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts.save import save, save_bare
from vitrify.artifacts.seal import Draft, seal
from vitrify.core import reference
from vitrify.core.attestation import SCAN
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import (
    CheckFailedError,
    MalformedError,
    MissingDependencyError,
    SignatureError,
    UnsupportedModelError,
    UntrustedCodeError,
    UsageError,
    VitrifyError,
)
from vitrify.core.protocols import Allow, Companions, Declares, Live
from vitrify.core.wire import to_builtins
from vitrify.inspection.identify import files_at, identify_one
from vitrify.inspection.scan import scan_files
from vitrify.inspection.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Files
    from vitrify.core.report import Report
    from vitrify.core.row import Row
    from vitrify.inspection.identify import Identity
    from vitrify.stores.oci_layout import OciLayout

NO_EXAMPLE = "it holds none, and no example was given"
_CHUNK = 1 << 20


def pack(
    path: str | Path,
    name: str | None = None,
    *,
    example: Any = None,
    format: str | None = None,  # noqa: A002 (the field's own word)
    to: str | None = None,
    runtime: str | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    description: str = "",
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Seal a model file or directory.

    Args:
        path: The file, or the directory of a format that is several files. The weights that a graph keeps in files
            beside it come along.
        name: As for :func:`vitrify.save`; so are ``dynamic`` and ``description``.
        example: What the model is called with. A graph that declares its own inputs needs none. Without it any other
            model is sealed without a signature: it can be read again, but not asked for predictions.
        format: Catalog name; by default found from the content, never from the file's name.
        to: Catalog name of the format to keep a pickled model in; by default the safest for its kind.
        runtime: Catalog name of what the model is asked for predictions on; one that is named has to open it.
        dynamic: More dimensions that may change.
        description: Free text for people.
        allow: Exact names of what the scan found and you trust: code outside the built-in allow-list, operators.
        store: Where to; by default the user's store.

    Raises:
        UsageError: There is no such file.
        UnsupportedModelError: No format knows its content, or several do, or only one that is not of models.
        MalformedError: It is not what its format allows.
        UntrustedCodeError: It needs a name that is not in ``allow``.
        CheckFailedError: The scan found something that is not a matter of names.
    """
    if name:
        reference.name(name)  # before the work, not after it
    files = files_at(Path(path))
    one = identify_one(files, where=str(path), name=format)
    _require_meant(one.row, str(path), named=bool(format), to=to, runtime=runtime)
    files = _with_companions(files, one, Path(path))
    one = replace(one, files=files)
    report = scan_files(files, left_out=files.left_out)
    names = _admit(report, Allow.of(allow), str(path))
    why = _why_as_it_is(one.row, example)
    if runtime or _is_read(one.row, example):
        kept = to if one.row.transient else one.row.name
        try:
            model = one.row.load().read(one.files, one.entry, Allow.of(allow))
            if one.row.transient and example is None and runtime is None:
                return save_bare(model, name, format=kept, description=description, store=store)
            return save(
                model,
                name,
                example=example,
                format=kept,
                runtime=runtime,
                dynamic=dynamic,
                description=description,
                store=store,
            )
        except (UnsupportedModelError, SignatureError, UsageError, MalformedError, MissingDependencyError) as error:
            # A file that stands alone, or whose library is not here, can be kept; a pickle has to be read.
            unread = isinstance(error, (MalformedError, MissingDependencyError))
            if example is not None or to or runtime or (unread and one.row.transient):
                raise
            why = _reason(error)
    notes = [
        f"sealed as it is, without a signature: it can be inspected and exported, not asked for predictions ({why})"
    ]
    return _seal_as_it_is(one, report, names, notes, name=name, description=description, store=store)


def _with_companions(files: Tree, one: Identity, path: Path) -> Tree:
    """Add what a graph that was named alone has beside it: without its weights it is no model.

    A link is not followed, and a file with a second name not taken: either may be any file of this machine. The scan
    tells of it.
    """
    look = one.row.look()
    if "file" not in one.entry or not isinstance(look, Companions):
        return files
    places = {name: path.parent / name for name in look.beside(files, one.entry)}
    here = {name: place for name, place in places.items() if place.is_file() and not _is_linked(path.parent, place)}
    return Tree({one.entry["file"]: path, **here}, files.left_out) if here else files


def _is_linked(folder: Path, place: Path) -> bool:
    steps = (place, *place.parents[: len(place.relative_to(folder).parts) - 1])
    return any(step.is_symlink() for step in steps) or place.stat().st_nlink > 1


def _require_meant(row: Row, where: str, *, named: bool, to: str | None, runtime: str | None) -> None:
    """Refuse what the call cannot mean: a file that says nothing about a model, another format for what is kept.

    Raises:
        UnsupportedModelError: The format is not of models, and the user did not name it.
        UsageError: A target was named for a file that is no pickle, or a runtime for one that is not loaded here.
    """
    if row.generic and not named:
        msg = f"{where} is a {row.name} file, which says nothing about a model"
        remedy = f"name the model in it, or seal it all the same with format={row.name!r}, or --format"
        raise UnsupportedModelError(msg, remedy=remedy)
    if to and not row.transient:
        msg = f"{where} is of the format {row.name} and is kept in it; to={to!r} is for the model in a pickle"
        raise UsageError(msg, remedy=f"pack it without, then: vitrify convert NAME --to {to}")
    if runtime and not isinstance(row.look(), Live):
        msg = f"{row.name} files are looked at here, not loaded: no runtime predicts with {where}"
        raise UsageError(msg, remedy="pack it without a runtime: it can be inspected and exported")


def _reason(error: VitrifyError) -> str:
    """Return what went wrong in one line, with the first place that it names."""
    first, *problems = error.message.splitlines()
    return ": ".join([first, *(problem.strip(" -") for problem in problems[:1])])


def _why_as_it_is(row: Row, example: Any) -> str:
    """Return why there is no signature; an example makes one only where Vitrify runs the model."""
    if not isinstance(row.look(), Live):
        return f"{row.name} files are looked at here, not loaded"
    if catalog().runtime_of(row.name) is None:
        return f"{row.name} files hold arrays, not how to predict"
    return NO_EXAMPLE if example is None else ""


def _admit(report: Report, allow: Allow, where: str) -> tuple[str, ...]:
    """Return what the user allowed of what the scan found.

    Raises:
        UntrustedCodeError: Something was not allowed; all names are listed.
        CheckFailedError: Something was found that nobody can allow by name.
    """
    found = [finding for finding in report.findings if finding.verdict == "found"]
    if nameless := [finding for finding in found if not finding.subject]:
        listed = "\n".join(f"  - {finding}" for finding in nameless)
        msg = f"{where} was not packed, because of what its scan found:\n{listed}"
        raise CheckFailedError(msg, report=report, remedy="get the file from its maker again, or do not use it")
    names = {finding.subject for finding in found}
    if missing := sorted(names - allow.names):
        listed = "\n".join(f"  - {finding}" for finding in found if finding.subject in missing)
        msg = f"{where} was not packed, because of what its scan found:\n{listed}"
        remedy = f"read that code, then allow it by its exact name: allow={missing!r}, or --allow NAME"
        raise UntrustedCodeError(msg, names=missing, remedy=remedy)
    return tuple(sorted(names))


def _is_read(row: Row, example: Any) -> bool:
    """Say whether the files become a live model on the way into the store."""
    if not isinstance(row.look(), Live):
        return False
    runtime = catalog().runtime_of(row.name)
    if row.transient or runtime is None:
        return row.transient
    return example is not None or isinstance(runtime.load(), Declares)


def _seal_as_it_is(
    one: Identity,
    report: Report,
    names: tuple[str, ...],
    notes: list[str],
    *,
    name: str | None,
    description: str,
    store: OciLayout | None,
) -> Artifact:
    tag = reference.name(name) if name else None
    where = store or stores.default_store()
    notes += [f"not checked: {finding}" for finding in report.findings if finding.verdict == "not checked"]
    with where.stage() as stage:
        for file in one.files.names():
            view = one.files.map(file)
            with stage.open(file, "weight") as stream:
                for start in range(0, view.nbytes, _CHUNK):
                    stream.write(view[start : start + _CHUNK])
        _require_same(stage.files(), report)
        document = Document(schema=SCHEMA, format=one.row.name, runtime=None, entry=one.entry, notes=tuple(notes))
        document = document.replace(code=document.code.replace(names=names))
        evidence = {SCAN: to_builtins(report)}
        return seal(stage, Draft(document, description=description, evidence=evidence, read=False), where, tag)


def _require_same(copied: Files, report: Report) -> None:
    """Scan what was copied: whoever may write to the original could have changed it after it was scanned.

    Raises:
        CheckFailedError: Something is found in the copy that was not found before.
    """
    known = {(finding.rule, finding.subject) for finding in report.findings}
    again = scan_files(copied)
    new = [finding for finding in again.findings if (finding.rule, finding.subject) not in known]
    if new:
        listed = "\n".join(f"  - {finding}" for finding in new)
        msg = f"the files were changed while they were packed:\n{listed}"
        raise CheckFailedError(msg, report=again, remedy="see who writes to them; copy them, and pack the copy")
