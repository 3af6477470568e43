"""The graph of an ensemble: which step takes what from where; everything that is wrong with it is said at once."""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import ReferenceNotFoundError, UsageError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.serve.ports import DATATYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from vitrify.serve.models import Served
    from vitrify.serve.settings import EnsembleSettings, StepSettings

    Find = Callable[[str, str], Served]

REQUEST = "request"
"""What the ensemble's own inputs are called where a step takes from them."""
MOST_STEPS = 100

Source = tuple[str, str]
"""A step, or :data:`REQUEST`, and the name of its output, or of the ensemble's input."""


@dataclass(frozen=True)
class Step:
    """One step whose places are known.

    Attributes:
        model: Which model.
        version: Which version; empty where its rollout decides.
        number: The same as a number; -1 where its rollout decides.
        sources: From each of the model's inputs to where it comes from.
        outputs: What others take of it.
    """

    model: str
    version: str
    number: int
    sources: Mapping[str, Source]
    outputs: tuple[str, ...]

    @property
    def needs(self) -> frozenset[str]:
        """The steps that come before it."""
        return frozenset(step for step, _ in self.sources.values() if step != REQUEST)


@dataclass(frozen=True)
class Graph:
    """An ensemble that can be answered.

    Attributes:
        signature: What it takes and gives as a whole.
        steps: In an order in which each comes after all that it needs.
        outputs: From each of its outputs to where it comes from.
        settings: What it was made of.
    """

    signature: Signature
    steps: Mapping[str, Step]
    outputs: Mapping[str, Source]
    settings: EnsembleSettings

    def needed(self, outputs: Iterable[str]) -> dict[str, Step]:
        """Return the steps without which some outputs cannot be given, in order."""
        wanted = {self.outputs[name][0] for name in outputs}
        for name, step in reversed(tuple(self.steps.items())):
            if name in wanted:
                wanted |= step.needs
        return {name: step for name, step in self.steps.items() if name in wanted}


def graph(settings: EnsembleSettings, find: Find) -> Graph:
    """Return an ensemble's graph.

    Args:
        settings: What it is.
        find: Returns the version of a model, or raises :class:`ReferenceNotFoundError`.

    Raises:
        UsageError: Steps go in a circle, models, inputs or outputs do not exist, or types do not fit; all
            such places are listed.
    """
    return _Reading(settings, find).graph()


def ordered(ensembles: Iterable[EnsembleSettings]) -> tuple[EnsembleSettings, ...]:
    """Return ensembles so that those that are asked by others come before these.

    Raises:
        UsageError: They ask each other in a circle.
    """
    named: dict[str, list[EnsembleSettings]] = {}
    for one in ensembles:
        named.setdefault(one.name, []).append(one)
    asked = {
        name: {step.model for one in several for step in one.steps.values() if step.model in named}
        for name, several in named.items()
    }
    try:
        order = tuple(TopologicalSorter(asked).static_order())
    except CycleError as error:
        msg = f"ensembles ask each other in a circle: {' -> '.join(reversed(error.args[1]))}"
        raise UsageError(msg, remedy="take one of these steps out") from None
    return tuple(one for name in order for one in named[name])


class _Reading:
    """One look at settings, which collects what is wrong."""

    def __init__(self, settings: EnsembleSettings, find: Find) -> None:
        self._settings = settings
        self._problems: list[str] = []
        self._models: dict[str, Served] = {}
        self._sources: dict[str, dict[str, Source]] = {}
        self._inputs: dict[str, Field] = {}
        if not 1 <= len(settings.steps) <= MOST_STEPS:
            self._wrong("steps", f"{len(settings.steps)} steps; expected from 1 to {MOST_STEPS}")
        if not settings.outputs:
            self._wrong("outputs", "it gives nothing; expected at least one output")
        for name, step in tuple(settings.steps.items())[:MOST_STEPS]:
            if name == REQUEST or "." in name or not name:
                self._wrong(f"steps.{name}", f"no name of a step: it has no dot, and is not {REQUEST!r}")
            try:
                self._models[name] = find(step.model, step.version)
            except ReferenceNotFoundError as error:
                self._wrong(f"steps.{name}.model", error.message)

    def graph(self) -> Graph:
        settings = self._settings
        for name in self._models:
            self._read_step(name, settings.steps[name])
        outputs = {name: self._read_output(name, text) for name, text in settings.outputs.items()}
        order = self._order()
        if self._problems:
            lines = [f"ensemble {settings.name!r} cannot be answered", *self._problems]
            raise UsageError("\n  - ".join(lines), remedy="correct its settings, or load the models that it asks")
        places = {name: source for name, (source, _) in outputs.items() if source}
        taken = {source for sources in self._sources.values() for source in sources.values()} | set(places.values())
        fields = tuple(field for _, field in outputs.values() if field)
        return Graph(
            Signature(inputs=tuple(self._inputs.values()), outputs=fields, container="dict"),
            {name: self._step(name, taken) for name in order},
            places,
            settings,
        )

    def _step(self, name: str, taken: set[Source]) -> Step:
        step = self._settings.steps[name]
        served = self._models[name]
        outputs = tuple(field.name for field in served.signature.outputs if (name, field.name) in taken)
        return Step(step.model, step.version, served.number if step.version else -1, self._sources[name], outputs)

    def _read_step(self, name: str, step: StepSettings) -> None:
        fields = {field.name: field for field in self._models[name].signature.inputs}
        for unknown in sorted(set(step.inputs) - set(fields)):
            self._wrong(f"steps.{name}.inputs.{unknown}", f"{step.model!r} has no such input (it has: {list(fields)})")
        sources = self._sources[name] = {}
        for field in fields.values():
            where = f"steps.{name}.inputs.{field.name}"
            source = self._source(step.inputs.get(field.name, f"{REQUEST}.{field.name}"), where, asks=True)
            if source is None:
                continue
            sources[field.name] = source
            if source[0] == REQUEST:
                self._take(source[1], field, where)
            elif (given := self._given(source, where)) and (why := _misfit(given, field)):
                self._wrong(where, f"takes {field}, and {'.'.join(source)} is {given}: {why}")

    def _read_output(self, name: str, text: str) -> tuple[Source | None, Field | None]:
        where = f"outputs.{name}"
        source = self._source(text, where, asks=False)
        given = self._given(source, where) if source else None
        return source, given and _own(given, name)

    def _source(self, text: str, where: str, *, asks: bool) -> Source | None:
        step, dot, output = text.partition(".")
        if dot and output and (step in self._settings.steps or (asks and step == REQUEST)):
            return step, output
        expected = f"STEP.OUTPUT{f' or {REQUEST}.NAME' if asks else ''} (steps are: {list(self._settings.steps)})"
        self._wrong(where, f"{text[:200]!r} leads nowhere; expected {expected}")
        return None

    def _given(self, source: Source, where: str) -> Field | None:
        """Return what a step gives; None where its model is not known, which was said already."""
        served = self._models.get(source[0])
        if served is None:
            return None
        fields = {field.name: field for field in served.signature.outputs}
        if source[1] not in fields:
            self._wrong(where, f"step {source[0]!r} gives no {source[1]!r} (it gives: {list(fields)})")
        return fields.get(source[1])

    def _take(self, name: str, field: Field, where: str) -> None:
        """Note what a step takes from the request; several that take the same must agree."""
        mine, known = _own(field, name), self._inputs.get(name)
        if known is None:
            self._inputs[name] = mine
            return
        if mine.dtype != known.dtype or len(mine.shape) != len(known.shape) or mine.categories != known.categories:
            self._wrong(where, f"takes {field} from the request, where another step takes {known}")
            return
        sizes = list(zip(mine.shape, known.shape, strict=True))
        if any(isinstance(one, int) and isinstance(other, int) and one != other for one, other in sizes):
            self._wrong(where, f"takes {field} from the request, where another step takes {known}")
            return
        shape = tuple(one if isinstance(one, int) else other for one, other in sizes)
        self._inputs[name] = known.replace(shape=shape, nullable=mine.nullable and known.nullable)

    def _order(self) -> tuple[str, ...]:
        needs = {
            name: {step for step, _ in sources.values() if step != REQUEST} for name, sources in self._sources.items()
        }
        try:
            order = tuple(TopologicalSorter(needs).static_order())
        except CycleError as error:
            circle = " -> ".join(reversed(error.args[1]))
            self._wrong("steps", f"they wait for each other in a circle: {circle}")
            return ()
        return tuple(name for name in order if name in self._models)

    def _wrong(self, place: str, message: str) -> None:
        self._problems.append(f"{place}: {message}")


def _own(field: Field, name: str) -> Field:
    """Return a field as the ensemble's: sizes that may change are of this field alone, but for the batch."""
    shape = tuple(
        size if isinstance(size, int) or size == BATCH else f"{name}.{axis}" for axis, size in enumerate(field.shape)
    )
    return field.replace(name=name, shape=shape, key=None, container_dtype=None)


def _misfit(given: Field, taken: Field) -> str:
    """Say why an output cannot be an input; empty where it can, as far as signatures tell."""
    if given.dtype != taken.dtype:
        mine, theirs = _number(given.dtype), _number(taken.dtype)
        if mine is None or theirs is None or taken.dtype == "bfloat16" or not np.can_cast(mine, theirs, "safe"):
            return "another element type, that is not cast without loss"
    shape = given.shape
    if len(shape) == len(taken.shape) + 1 and shape[-1] in {1, *(size for size in shape if isinstance(size, str))}:
        shape = shape[:-1]  # a column that comes as a matrix of one column
    if len(shape) != len(taken.shape):
        return f"{len(given.shape)} dimensions for {len(taken.shape)}"
    for axis, (one, other) in enumerate(zip(shape, taken.shape, strict=True)):
        if isinstance(one, int) and isinstance(other, int) and one != other:
            return f"{one} for {other} in dimension {axis}"
    return ""


def _number(dtype: str) -> np.dtype[Any] | None:
    """Return NumPy's type of an element type that is a number, else None."""
    if dtype == "bfloat16":
        return np.dtype("float32")  # which is how a session has it
    return np.dtype(dtype) if dtype in DATATYPES else None
