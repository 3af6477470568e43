"""Save: a live model becomes a sealed artifact."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vitrify import containers, stores
from vitrify.artifacts import golden
from vitrify.artifacts.seal import Draft, seal
from vitrify.core import reference
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.protocols import Declares

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Example, Runtime, Written
    from vitrify.core.row import Row
    from vitrify.stores.oci_layout import OciLayout


def save(
    model: Any,
    name: str | None = None,
    *,
    example: Any = None,
    format: str | None = None,  # noqa: A002 (the field's own word)
    runtime: str | None = None,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    code: Collection[str] = (),
    description: str = "",
    store: OciLayout | None = None,
) -> Artifact:
    """Save a live model, having proved in a clean process that it loads and predicts the same.

    Args:
        model: A fitted estimator, a booster, a module, a function, or a dict of named tensors.
        name: ``name`` or ``name:tag``; what had the name before stays in the store under its digest.
        example: What the model is called with: a frame, an array, a tensor, a dict or tuple of them, or records.
            It gives the signature and the golden samples. Bare weights need none, and a graph that declares its
            inputs can do without.
        format: Catalog name; by default the safest one that keeps everything of this kind of model. ``pickle``
            is never chosen for you.
        runtime: Catalog name of what the model is asked for predictions on, here and later; by default the first that
            takes its format.
        dynamic: More dimensions that may change, by input name: ``{"image": {2: "height"}}``. The first always may.
        code: Exact dotted names of more classes or functions whose modules must travel with the model.
        description: Free text for people.
        store: Where to; by default the user's store.

    Returns:
        The artifact, opened.

    Raises:
        UsageError: The name is not valid, or there is no example.
        UnsupportedModelError: No format takes this object, or it holds what the format cannot keep; all is listed.
        ModelError: The model was not fitted, or rejects the example.
        SignatureError: The example is empty or cannot be described.
        CheckFailedError: The clean process could not load it, or it predicted otherwise.
        StoreError: The store could not take it.
    """
    row = _format_row(model, format)
    engine = _named_runtime(runtime, row) if runtime else _runtime_row(model, row)
    if engine and example is None and not isinstance(engine.load(), Declares):
        msg = "an example is needed: it gives the signature, and predictions to prove the copy with"
        raise UsageError(
            msg, remedy="pass some rows of what the model is called with: save(model, name, example=X[:100])"
        )
    shown = containers.example(example, dynamic=dynamic) if engine and example is not None else None
    return _seal(model, name, row, engine, shown, code=code, description=description, store=store)


def save_bare(
    model: Any,
    name: str | None,
    *,
    format: str | None = None,  # noqa: A002 (the field's own word)
    description: str = "",
    store: OciLayout | None = None,
) -> Artifact:
    """Save a live model without a signature: it can be read again, but not asked for predictions.

    Raises:
        UnsupportedModelError: No format takes this object, or it holds what the format cannot keep; all is listed.
        CheckFailedError: The clean process could not load it.
        StoreError: The store could not take it.
    """
    return _seal(model, name, _format_row(model, format), None, None, description=description, store=store)


def _seal(
    model: Any,
    name: str | None,
    row: Row,
    runtime: Row | None,
    shown: Example | None,
    *,
    code: Collection[str] = (),
    description: str,
    store: OciLayout | None,
) -> Artifact:
    tag = reference.name(name) if name else None
    where = store or stores.default_store()
    with where.stage() as stage:
        written: Written = row.load().write(model, stage, shown)
        draft = _draft(model, row, runtime, shown, written)
        draft = replace(draft, names=(*written.names, *code), description=description)
        return seal(stage, draft, where, tag)


def _format_row(model: Any, name: str | None) -> Row:
    if name:
        return catalog().row("format", name)
    if row := catalog().for_object("format", model):
        return row
    if hasattr(model, "__qualname__"):  # some libraries' functions are objects of classes of their own
        return catalog().row("format", "python")
    kind = f"{type(model).__module__}.{type(model).__qualname__}"
    known = ", ".join(row.name for row in catalog().rows("format"))
    msg = f"no format takes a {kind} (there are: {known})"
    raise UnsupportedModelError(msg, remedy="if it is yours alone, say so: format='pickle', which is marked as code")


def _named_runtime(name: str, format_row: Row) -> Row:
    """Return the runtime that was asked for.

    Raises:
        UsageError: There is none, or it does not open the format.
    """
    row = catalog().row("runtime", name)
    if format_row.name not in row.formats:
        msg = f"runtime {name!r} opens {', '.join(row.formats)}, not {format_row.name}"
        raise UsageError(msg, remedy="leave the runtime out, or save in a format that it opens")
    return row


def _runtime_row(model: Any, format_row: Row) -> Row | None:
    """Return the runtime for an object; one with ``predict`` is an estimator even if no library of ours made it."""
    row = catalog().for_object("runtime", model)
    if row is None or format_row.name not in row.formats:
        row = catalog().runtime_of(format_row.name)
    elif row.name == "python" and hasattr(model, "predict"):
        row = catalog().row("runtime", "estimator")
    return row


def _draft(model: Any, row: Row, runtime: Row | None, example: Example | None, written: Written) -> Draft:
    document = Document(schema=SCHEMA, format=row.name, runtime=None, entry=written.entry, notes=written.notes)
    if runtime is None:
        return Draft(document)
    engine: Runtime = runtime.load()
    if example is None:
        assert isinstance(engine, Declares)
        return Draft(document.replace(runtime=runtime.name, signature=engine.signature(model)))
    entry = {**written.entry, **engine.entry(model, example)}
    document = document.replace(runtime=runtime.name, entry=entry, signature=example.signature)
    inputs = golden.choose(example.arrays, example.signature)
    outputs = engine.wrap(model, document).run(inputs)
    fields = engine.describe_outputs(model, outputs, entry)
    document = document.replace(signature=example.signature.replace(outputs=fields))
    return Draft(document, inputs, outputs)
