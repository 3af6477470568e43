"""Estimators to PMML 4.4: models and pipelines as PMML's own elements.

The writers stand in :mod:`vitrify.transforms.convert._pmml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.core.errors import LimitExceededError, UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.reading.files import HeldFiles
from vitrify.transforms.convert._pmml.document import Shown, document, outputs
from vitrify.transforms.convert._pmml.elements import written
from vitrify.transforms.convert._pmml.fields import NONE, TEXT, Fields
from vitrify.transforms.convert._pmml.walk import Walk

if TYPE_CHECKING:
    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject


class EstimatorToPmml:
    """From a fitted estimator, of scikit-learn or of a booster, to a document that computes as it does."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List every step of the model, and every input, that PMML cannot carry."""
        del step
        return _Conversion(source).problems

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the document as ``model.pmml``.

        Raises:
            UnsupportedModelError: Something cannot be carried; everything is listed.
        """
        del step
        conversion = _Conversion(source)
        if conversion.problems:
            msg = f"{conversion.name} cannot be converted to PMML"
            raise UnsupportedModelError(msg, problems=conversion.problems)
        result: Written = catalog().load("format", "pmml").write(conversion.content, sink, None)
        return Written(entry={**result.entry, **conversion.entry}, names=result.names, notes=result.notes)


class _Conversion:
    """One walk through one model."""

    def __init__(self, source: Subject) -> None:
        self.content, self.entry = b"", dict[str, Any]()
        model = _native(source)
        self.name = type(model).__name__
        self.problems = self._walk(source, model)

    def _walk(self, source: Subject, model: Any) -> tuple[Finding, ...]:
        signature = source.document.signature
        if signature is None or not signature.outputs:
            remedy = "save the model with an example: save(model, name, example=X[:100])"
            return (Finding(place="signature", message="there is none: the fields are unknown", remedy=remedy),)
        fields = Fields(signature)
        walk = Walk(fields)
        answer = walk.run(model, fields.table, self.name.lower())
        if walk.problems:
            return (*fields.unfit.values(), *walk.problems)
        try:
            answer, shown = outputs(signature, answer, fields)
            root, shown = document(self.name, answer, fields, shown)
            self.content = written(root)
            _require_readable(self.content)
        except UnsupportedModelError as error:
            return (Finding(place=f"{self.name.lower()} ({self.name})", message=error.message, remedy=error.remedy),)
        used = {one.attrib["name"] for one in root.iter("DataField")}
        self.entry = self._entry(fields, shown, used)
        return tuple(finding for name, finding in fields.unfit.items() if name in used)

    def _entry(self, fields: Fields, shown: Shown, used: set[str]) -> dict[str, Any]:
        """Return what the runtime must know; a column of a matrix that is not looked at has no field."""
        ports = {
            item: [name if name in used else None for name in names]
            for item, names in fields.ports.items()
            if used & set(names)
        }
        entry: dict[str, Any] = {"inputs": ports, "outputs": shown, "casts": {}}
        text = {column.name for column in fields.table.columns if column.dtype == TEXT}
        if fields.none_apart and text & used:
            entry["missing_text"] = {"none": NONE}
        return entry


def _require_readable(content: bytes) -> None:
    """Refuse a document that its own reader would not take.

    Raises:
        UnsupportedModelError: It is too deep or too large.
    """
    look = catalog().load("format", "pmml")
    try:
        list(look.hazards(HeldFiles({"model.pmml": memoryview(content)}), {}))
    except LimitExceededError as error:
        msg = f"becomes a document of {len(content):,} bytes that no reader takes: {error.message}"
        raise UnsupportedModelError(msg, remedy="train fewer or smaller trees, or convert to onnx") from error


def _native(source: Subject) -> Any:
    if source.native is not None:
        return source.native
    held = source.document
    return catalog().load("format", held.format).read(source.files, held.entry, source.allow)
