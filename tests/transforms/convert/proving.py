"""Save an estimator, convert it to ONNX, and prove it: in one process, without a store."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vitrify import containers
from vitrify.checks.parity import Parity
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.plan import Step
from vitrify.core.protocols import Subject
from vitrify.testing.directory import DirectorySink

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.report import Finding, Report


def saved(model: Any, data: Any, folder: Path, format_: str = "skops") -> Subject:
    """Write a fitted estimator, and return what was written, with a signature and golden samples.

    Args:
        model: A fitted estimator.
        data: What it is called with.
        folder: Where to; it must not exist.
        format_: ``skops`` or ``pickle``.
    """
    folder.mkdir()
    example, sink = containers.example(data), DirectorySink(folder)
    writer, engine = catalog().load("format", format_), catalog().load("runtime", "estimator")
    written = writer.write(model, sink, example)
    document = Document(
        schema=SCHEMA,
        format=format_,
        runtime="estimator",
        entry={**written.entry, **engine.entry(model, example)},
        signature=example.signature,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows without neighbours
        outputs = engine.wrap(model, document).run(example.arrays)
    fields = engine.describe_outputs(model, outputs, document.entry)
    document = document.replace(signature=example.signature.replace(outputs=fields))
    subject = Subject(sink.files(), document, example.arrays)
    writer.read(subject.files, document.entry, subject.allow)
    return subject


def step_of(source: Subject, target: str = "onnx") -> Step:
    """Return the step from the source's format to the target's."""
    name = source.document.format
    return Step(transform=f"{name}-to-{target}", source=name, target=target, fidelity="numeric", options={})


def problems(source: Subject, target: str = "onnx") -> tuple[Finding, ...]:
    """Return what of it cannot be converted."""
    step = step_of(source, target)
    found: tuple[Finding, ...] = catalog().load("transform", step.transform).problems(source, step)
    return found


def proof(source: Subject, folder: Path, rows: int, target: str = "onnx") -> Report:
    """Convert it, and compare what comes out with the source on so many rows.

    Args:
        source: What :func:`saved` returned.
        folder: Where the result goes; it must not exist.
        rows: Rows compared.
        target: The format that it is converted to.
    """
    folder.mkdir()
    sink, step = DirectorySink(folder), step_of(source, target)
    runtime = catalog().runtime_of(target)
    assert runtime is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of overflow and division by zero inside the source, which probes provoke
        written = catalog().load("transform", step.transform).apply(source, step, sink)
        document = source.document.replace(format=target, runtime=runtime.name, entry=written.entry)
        return Parity(rows=rows).run(replace(source, files=sink.files(), document=document), source)


def assert_proven(model: Any, data: Any, folder: Path, rows: int = 600) -> Report:
    """Save, convert and prove a fitted estimator."""
    report = proof(saved(model, data, folder / "source"), folder / "onnx", rows)
    assert report.verdict == "clean", "\n".join(finding.message for finding in report.findings)
    assert report.details["rows"]["compared"] > min(rows, len(data)) // 2
    return report
