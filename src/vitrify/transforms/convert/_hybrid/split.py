"""Splitting an estimator: what goes to ONNX, fused as far as it goes, and the smallest parts that stay as they are.

A pipeline falls into its steps, a column transformer and a union into their branches, a search into its best
estimator. The golden samples are sent through the live model to see what reaches each part.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.core.document import SCHEMA, Document
from vitrify.core.protocols import Subject
from vitrify.formats._hybrid.recipe import JOINED, Source, Stage
from vitrify.transforms.convert._hybrid.branches import Flow, branch_flow, branch_names, is_a, only
from vitrify.transforms.convert.sklearn_onnx import SklearnToOnnx

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Allow, Arrays, Example
    from vitrify.core.report import Finding
    from vitrify.core.signature import Signature

_ROWS = 64
"""So many golden rows show what reaches a part."""


@dataclass
class Part:
    """One model of the hybrid.

    Attributes:
        name: Its place in the whole.
        model: The live model.
        subject: The same as what a transform works on.
        example: What reaches it.
        feeds: Where its inputs come from.
        gives: Where its outputs go.
        why: Why it stays native; empty for what goes to ONNX.
    """

    name: str
    model: Any
    subject: Subject
    example: Example
    feeds: dict[str, Source]
    gives: dict[str, str]
    why: tuple[Finding, ...] = ()


@dataclass
class Split:
    """The parts found so far."""

    step: Step
    allow: Allow
    parts: list[Part | Stage] = field(default_factory=list)
    slots: int = 0

    def run(self, model: Any, flow: Flow, name: str) -> Part | None:
        """Split a model; return its last part, or None where a join is the last."""
        part = self._part(model, flow, name)
        if not part.why:
            return self._add(part)
        inner = getattr(model, "best_estimator_", None)
        if inner is not None:
            return self.run(inner, flow, f"{name}.best_estimator_")
        if is_a(model, "Pipeline") and len(model.steps) > 1:
            return self._pipeline(model, flow, name)
        if is_a(model, "Pipeline") and len(model.steps) == 1:
            return self.run(model.steps[0][1], flow, f"{name}.{model.steps[0][0]}")
        if is_a(model, "ColumnTransformer", "FeatureUnion") and self._branches(model, flow, name):
            return None
        return self._add(part)

    def _pipeline(self, model: Any, flow: Flow, name: str) -> Part | None:
        """Fuse what goes to ONNX one after the other; split what does not."""
        steps = [(label, step) for label, step in model.steps if step is not None and step != "passthrough"]
        natives = list(accumulate((step for _, step in steps[:-1]), _transformed, initial=flow.native))
        alone = [
            self._part(step, Flow(native, {}), label) for (label, step), native in zip(steps, natives, strict=True)
        ]
        last: Part | None = None
        start = 0
        while start < len(steps):
            end = start + 1
            while end < len(steps) and not any(part.why for part in alone[start : end + 1]):
                end += 1
            label = steps[start][0] if end == start + 1 else f"{steps[start][0]}..{steps[end - 1][0]}"
            if end == start + 1:
                last = self.run(steps[start][1], flow, f"{name}.{label}")
            else:
                last = self._add(self._part(type(model)(steps[start:end]), flow, f"{name}.{label}"))
            if end < len(steps):
                flow = self._after(last, natives[end])
            start = end
        return last

    def _branches(self, model: Any, flow: Flow, name: str) -> bool:
        """Run the branches that go to ONNX as one model, the others each on its own, and join what they give."""
        labels = branch_names(model)
        if len(labels) < 2 or not hasattr(model, "transform"):  # noqa: PLR2004 (one branch is no choice)
            return False
        native = _quietly(model.transform, flow.native)
        if hasattr(native, "columns"):  # a frame: its columns have types of their own
            return False
        alone = {label: self._part(only(model, [label]), flow, f"{name}.{label}") for label in labels}
        good = [label for label in labels if not alone[label].why]
        pieces: dict[str, Source] = {}
        if good:
            label = good[0] if len(good) == 1 else f"({', '.join(good)})"
            whole = alone[good[0]] if len(good) == 1 else self._part(only(model, good), flow, f"{name}.{label}")
            slot = next(iter(self._add(whole).gives.values()))
            ends = [0, *accumulate(int(_outputs(alone[one])[0].shape[-1]) for one in good)]
            pieces = {
                one: Source(slot=slot, columns=tuple(range(first, end)))
                for one, first, end in zip(good, ends[:-1], ends[1:], strict=True)
            }
        for label in labels:
            if label not in pieces:
                inner = branch_flow(model, label, flow)
                last = self._add(alone[label]) if inner is None else self.run(*inner, f"{name}.{label}")
                gives = (last or self.parts[-1]).gives
                pieces[label] = Source(slot=next(iter(gives.values())))
        joined = tuple(pieces[label] for label in labels)
        self.parts.append(Stage(name=f"{name}.join", gives={JOINED: self._slot()}, joined=joined))
        return True

    def _after(self, last: Part | None, native: Any) -> Flow:
        """Return what reaches the step behind a part; behind a join where there is none."""
        fields = containers.example(native).signature.inputs
        if last is None:
            stage = self.parts[-1]
            return Flow(native, {fields[0].name: Source(slot=next(iter(stage.gives.values())))})
        slots = list(last.gives.values())
        if len(slots) == len(fields):
            return Flow(native, {item.name: Source(slot=slot) for item, slot in zip(fields, slots, strict=True)})
        return Flow(
            native,
            {
                item.name: Source(slot=slots[0], columns=(index,), vector=len(item.shape) == 1)
                for index, item in enumerate(fields)
            },
        )

    def _part(self, model: Any, flow: Flow, name: str) -> Part:
        """Return a model as a part, with why it does not go to ONNX."""
        example = containers.example(flow.native)
        document = _described(model, example)
        subject = Subject(files=_NO_FILES, document=document, golden=example.arrays, allow=self.allow, native=model)
        why = SklearnToOnnx().problems(subject, self.step)
        return Part(name, model, subject, example, dict(flow.feeds), {}, why)

    def _add(self, part: Part) -> Part:
        part.gives = {output.name: self._slot() for output in _outputs(part)}
        self.parts.append(part)
        return part

    def _slot(self) -> str:
        self.slots += 1
        return f"value_{self.slots}"


class _NoFiles:
    """A live model at hand has no files yet."""

    def names(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def read(self, name: str) -> bytes:
        """Refuse."""
        raise KeyError(name)

    map = path = read


_NO_FILES: Any = _NoFiles()


def start(golden: Arrays, signature: Signature) -> Flow:
    """Return what reaches the whole model: its first golden rows."""
    some = containers.take(golden, signature.inputs, slice(0, _ROWS))
    feeds = {item.name: Source(slot=item.name) for item in signature.inputs}
    return Flow(containers.from_arrays(some, signature), feeds)


def _described(model: Any, example: Example) -> Document:
    """Return a document for a live model, with the outputs that it gives for its example."""
    row = catalog().for_object("format", model) or catalog().row("format", "pickle")
    engine = catalog().row("runtime", "estimator").load()
    entry = engine.entry(model, example)
    document = Document(schema=SCHEMA, format=row.name, runtime="estimator", entry=entry, signature=example.signature)
    outputs = _quietly(engine.wrap(model, document).run, example.arrays)
    fields = engine.describe_outputs(model, outputs, entry)
    return document.replace(signature=example.signature.replace(outputs=fields))


def _outputs(part: Part) -> tuple[Any, ...]:
    signature = part.subject.document.signature
    return signature.outputs if signature else ()


def _transformed(native: Any, model: Any) -> Any:
    """Return what a live step makes of its rows; sparse ones become dense, as every session gives them."""
    answer = _quietly(model.transform, native)
    return answer.toarray() if hasattr(answer, "toarray") else answer


def _quietly(call: Callable[[Any], Any], data: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(data)
