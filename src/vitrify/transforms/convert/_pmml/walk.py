"""The walk through a model: each step is written by the function that knows its class, and what cannot be is listed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.transforms.convert._pmml.fields import F64, Column, Table

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Fields
    from vitrify.transforms.convert._pmml.models import Model


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an estimator answers with.

    Attributes:
        table: What ``transform`` returns.
        chain: The models that predict, each of which sees the outputs of those before it.
        outputs: ``label``, ``prediction``, ``score`` or ``probability`` to a field, or to the fields of a matrix.
    """

    table: Table | None = None
    chain: tuple[Model, ...] = ()
    outputs: dict[str, str | list[str]] = field(default_factory=dict)


Writer = Callable[["Walk", Any, Table], Answer]
_WRITERS: dict[str, Writer] = {}
_HOMES = {
    "sklearn": (
        *("scaling", "encoding", "imputing", "composing", "projecting", "linear", "trees", "bayes", "vectors"),
        *("network", "clusters"),
    ),
    "xgboost": ("xgboost",),
    "lightgbm": ("lightgbm",),
    "catboost": ("catboost",),
}
"""The modules that hold the writers of a package's classes; imported when one of them is met."""
_STAND_IN = Answer(table=Table((Column("unsupported", F64),), made=True))


def writes(*names: str) -> Callable[[Writer], Writer]:
    """Register a writer for classes, each named by its top-level package and its own name."""

    def register(writer: Writer) -> Writer:
        _WRITERS.update(dict.fromkeys(names, writer))
        return writer

    return register


@dataclass
class Walk:
    """One walk through a model.

    Attributes:
        fields: Where what is computed goes.
        problems: What could not be written so far.
    """

    fields: Fields
    problems: list[Finding] = field(default_factory=list)
    _place: tuple[str, ...] = ()

    def run(self, estimator: Any, table: Table, place: str) -> Answer:
        """Write one estimator; ``place`` is where it stands inside its parent, such as ``steps[1] 'scale'``."""
        kind = type(estimator)
        outer, self._place = self._place, (*self._place, place)
        try:
            return _writer(kind)(self, estimator, table)
        except UnsupportedModelError as error:
            self._note(kind.__name__, error.message, error.remedy)
        except Exception as error:  # noqa: BLE001 (attributes of an estimator may raise anything)
            remedy = "if it is fitted, by the installed version, then convert to another target: vitrify formats"
            if table is not _STAND_IN.table:  # else it follows from what was noted
                self._note(kind.__name__, f"{type(error).__name__}: {error}", remedy)
        finally:
            self._place = outer
        return _STAND_IN

    def _note(self, kind: str, message: str, remedy: str) -> None:
        self.problems.append(Finding(place=f"{'.'.join(self._place)} ({kind})", message=message, remedy=remedy))


def _writer(kind: type) -> Writer:
    package = kind.__module__.partition(".")[0]
    for module in _HOMES.get(package, ()):
        importlib.import_module(f"vitrify.transforms.convert._pmml.{module}")
    writer = _WRITERS.get(f"{package}.{kind.__name__}")
    if writer is None:
        refuse("has no form in PMML here", "do this step before the model, or convert to onnx, which carries more")
    return writer


def features(answer: Answer) -> Table:
    """Return what a step's ``transform`` gives.

    Raises:
        UnsupportedModelError: It is no transformer.
    """
    if answer.table is None:
        refuse("stands where a transformer must stand", "put transformers before it only")
    return answer.table


def refuse(message: str, remedy: str) -> NoReturn:
    """Say what a writer cannot do with this estimator, and what to do instead.

    Raises:
        UnsupportedModelError: Always.
    """
    raise UnsupportedModelError(message, remedy=remedy)
