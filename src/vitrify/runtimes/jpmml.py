"""JPMML: the evaluator of PMML documents, in a Java virtual machine of this process.

A document's fields hold one value a row; what the entry says, as converters write it, leads from the signature to them:

* ``inputs``: signature input to its field, or to those of a matrix's columns, null for one that the document does not
  look at. Without it, equal names;
* ``outputs``: the same for what the evaluator gives. Fields side by side become the columns of a matrix;
* ``missing_text``: the text that stands for None (``none``) where it is not simply missing, as NaN always is.

Numbers are cast to the fields' own types before Java sees them; what is missing (NaN, None, masked) is missing there.
All rows go in one call. The machine is started when the first model is opened, and ends with the process.

Source: https://github.com/jpmml/jpmml-evaluator-python
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify import containers
from vitrify.core.catalog import catalog
from vitrify.core.errors import MalformedError, MissingDependencyError, ModelError, UnsupportedModelError
from vitrify.core.report import Finding
from vitrify.core.signature import Field, Signature
from vitrify.runtimes.session import BaseSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitrify.core.document import Document
    from vitrify.core.protocols import Allow, Arrays, Example, Files

    Array = np.ndarray[Any, Any]

_MACHINE = ("-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Xrs")
"""One thread collects garbage: a model's rows are short-lived, and the machine shares its cores with others. Signals
are left to Python: Java would end the process at an interrupt, and what is half done would stay behind."""
_SMALLEST_STACK, _LARGEST_STACK = 8 * 1024 * 1024, 512 * 1024 * 1024
"""Java takes up to 1 GiB; threads of its own reserve this much, and use what they need."""
_DTYPES = {"double": "float64", "float": "float32", "integer": "int64", "boolean": "bool", "string": "string"}
"""PMML's types; dates and times are given and taken as text."""
_ERROR = "org.jpmml."
_MATRIX = 2


class Jpmml:
    """The runtime of PMML documents."""

    def open(self, files: Files, document: Document, allow: Allow) -> JpmmlSession:
        """Read the document with its format, which looks through it first, and evaluate it."""
        return self.wrap(
            catalog().load("format", document.format or "pmml").read(files, document.entry, allow), document
        )

    def wrap(self, model: Any, document: Document) -> JpmmlSession:
        """Return a session over a document's bytes."""
        return JpmmlSession(_evaluator(model), document.signature, document.entry)

    def signature(self, model: Any) -> Signature:
        """Return the active fields as a table, and what the document gives: its targets, then its outputs."""
        return _declared(_evaluator(model))

    def entry(self, model: Any, example: Example) -> dict[str, Any]:
        """Return nothing: the document says all."""
        del model, example
        return {}

    def describe_outputs(self, model: Any, outputs: Arrays, entry: Mapping[str, Any]) -> tuple[Field, ...]:
        """Return a field an output."""
        del model, entry
        return containers.output_fields(outputs, len(next(iter(outputs.values()))))


class JpmmlSession(BaseSession):
    """An open document."""

    def __init__(self, evaluator: Any, signature: Signature | None, entry: Mapping[str, Any]) -> None:
        """Match the signature's names with the document's fields.

        Raises:
            MalformedError: They do not fit.
        """
        types = _types(evaluator.javaEvaluator.getInputFields())
        given = {field.name: field for field in _outputs(evaluator)}
        super().__init__(signature or _declared(evaluator))
        self._evaluator = evaluator
        self._types = types
        self._given = given
        self._marks: Mapping[str, str] = entry.get("missing_text") or {}
        ports: Mapping[str, str | list[str | None]] = entry.get("inputs") or {name: name for name in types}
        self._inputs: dict[str, list[str | None]] = {
            name: [one] if isinstance(one, str) else list(one) for name, one in ports.items()
        }
        self._outputs = entry.get("outputs") or {name: name for name in given}
        self._require_fit()

    def _require_fit(self) -> None:
        """Refuse names that one side has and the other has not."""
        fields = {field.name: field for field in self.signature.inputs}
        fed = [name for names in self._inputs.values() for name in names if name is not None]
        answered = [name for names in self._outputs.values() for name in _listed(names)]
        unfit = {*(self._inputs.keys() - fields.keys()), *(self._types.keys() ^ set(fed))}
        unfit |= {name for name in self._inputs.keys() & fields.keys() if not _fits(fields[name], self._inputs[name])}
        unfit |= {*(set(answered) - self._given.keys())}
        unfit |= {field.name for field in self.signature.outputs} - self._outputs.keys()
        if unfit:
            msg = f"the document's fields and the signature do not fit: {sorted(unfit)}"
            raise MalformedError(msg, remedy="save or convert the model again")

    def _run(self, inputs: Arrays) -> Arrays:
        names, data = [], []
        for name, fields in self._inputs.items():
            array = inputs[name].reshape(len(inputs[name]), -1)
            for place, field in enumerate(fields):
                if field is not None:
                    names.append(field)
                    data.append(_column(array[:, place], self._types[field], self._marks.get("none")))
        results = _evaluate(self._evaluator, names, data, len(next(iter(inputs.values()))))
        return {name: self._answer(name, fields, results) for name, fields in self._outputs.items()}

    def _answer(self, name: str, fields: str | Sequence[str], results: Mapping[str, list[Any]]) -> Array:
        declared = next((field for field in self.signature.outputs if field.name == name), None)
        dtype = self._given[_listed(fields)[0]].dtype if declared is None else declared.dtype
        if isinstance(fields, str):
            column = _array(results[fields], dtype)
            return column.reshape(-1, 1) if declared is not None and len(declared.shape) > 1 else column
        return np.stack([_array(results[field], dtype) for field in fields], axis=1)


def _evaluator(content: bytes) -> Any:
    """Return an evaluator of a document.

    Raises:
        UnsupportedModelError: JPMML does not do what is in it.
    """
    backend = _machine()
    from jpmml_evaluator import JavaError, make_evaluator

    try:
        return make_evaluator(content, backend=backend)
    except JavaError as error:
        name = str(error.className).rpartition(".")[2]
        problem = Finding(
            place="document", message=f"{name}: {error.message}", remedy="convert the model to another target"
        )
        msg = "JPMML cannot evaluate this document"
        raise UnsupportedModelError(msg, problems=[problem]) from error


def _machine() -> Any:
    """Start the virtual machine, if it is not running, and return the way to it.

    Raises:
        MissingDependencyError: There is no Java, or too old a one.
    """
    import jpype
    from jpmml_evaluator import _classpath, make_backend

    try:
        if not jpype.isJVMStarted():
            # Ctrl-C stays Python's.
            jpype.startJVM(*_MACHINE, _stack(), classpath=_classpath([]), interrupt=False)
        return make_backend("jpype")
    except (jpype.JVMNotFoundException, OSError, ImportError, TypeError, ValueError) as error:
        msg = f"JPMML runs on Java 11 or newer, and none was started: {error}"
        remedy = "install a Java runtime (Debian: apt install default-jre-headless), or set JAVA_HOME to one"
        raise MissingDependencyError(msg, remedy=remedy) from error


def _stack() -> str:
    """Return the option that tells Java how large this process's own stack is.

    Without it, Java takes the main thread's for 1 MiB and puts its guards there: whatever goes deeper afterwards, were
    it Python's own parser, ends the process without a word.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    most = _LARGEST_STACK if soft == resource.RLIM_INFINITY else min(soft, _LARGEST_STACK)
    return f"-Xss{max(most, _SMALLEST_STACK) // 1024}k"


def _evaluate(evaluator: Any, names: list[str], data: list[list[Any]], rows: int) -> dict[str, list[Any]]:
    """Return the results by field.

    Raises:
        ModelError: The evaluator refused a row.
    """
    from jpmml_evaluator import PythonEvaluatorUtil

    if not names:  # a document that looks at nothing still answers to each row
        names, data = ["row"], [[None] * rows]
    table = {"columns": names, "data": data}
    results = PythonEvaluatorUtil.evaluateAll(evaluator.backend, evaluator.javaEvaluator, table, None, 1)
    for place, error in enumerate(results["errors"] or ()):
        if error is not None:
            msg = f"JPMML refused row {place}: {str(error).removeprefix(_ERROR)}"
            raise ModelError(msg, remedy="give values that the document's DataDictionary allows")
    return dict(zip(results["columns"], results["data"], strict=True))


def _fits(field: Field, names: list[str | None]) -> bool:
    """Return whether there is a field for each value that a row of an input has."""
    sizes = field.shape[1:]
    return len(field.shape) <= _MATRIX and len(names) == (*sizes, 1)[0]


def _column(array: Array, kind: str, none: str | None) -> list[Any]:
    """Return one field's values as Java takes them: None is missing."""
    mask, values = np.ma.getmaskarray(array), np.ma.getdata(array)
    if kind in {"double", "float"} and values.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # what is too large is infinite, as in the source
            values = values.astype(np.float32 if kind == "float" else np.float64)
    listed: list[Any] = values.astype(str).tolist() if values.dtype.kind in "mM" else values.tolist()
    for place, value in enumerate(listed):
        if value is None:
            listed[place] = none
        elif mask[place] or value != value or (values.dtype.kind in "mM" and value == "NaT"):  # noqa: PLR0124 (NaN)
            listed[place] = None
        elif kind == "integer" and isinstance(value, float) and value.is_integer():
            listed[place] = int(value)
    return listed


def _array(values: list[Any], dtype: str) -> Array:
    """Return results as an array; an integer or boolean that is missing is masked."""
    missing = [value is None for value in values]
    if dtype in {"string", "object"}:
        texts = np.empty(len(values), object)
        texts[:] = values
        return texts
    kind = np.dtype(dtype)
    if kind.kind == "f" or not any(missing):
        return np.array([np.nan if gone else value for value, gone in zip(values, missing, strict=True)], kind)
    filled = [0 if gone else value for value, gone in zip(values, missing, strict=True)]
    masked: Array = np.ma.MaskedArray(np.array(filled, kind), missing)
    return masked


def _declared(evaluator: Any) -> Signature:
    types = _types(evaluator.javaEvaluator.getInputFields())
    inputs = tuple(Field(name=name, dtype=_DTYPES.get(kind, "string"), nullable=True) for name, kind in types.items())
    return Signature(inputs=inputs, outputs=_outputs(evaluator), container="dict")


def _outputs(evaluator: Any) -> tuple[Field, ...]:
    model = evaluator.javaEvaluator
    types = {**_types(model.getTargetFields()), **_types(model.getOutputFields())}
    return tuple(Field(name=name, dtype=_DTYPES.get(kind, "string")) for name, kind in types.items())


def _types(fields: Any) -> dict[str, str]:
    """Return names and types of Java's fields; a target that the document does not name has none."""
    found = {}
    for field in fields:
        kind = field.getDataType()
        if field.getName() is not None:
            found[str(field.getName())] = "" if kind is None else str(kind.value())
    return found


def _listed(fields: str | Sequence[str]) -> list[str]:
    return [fields] if isinstance(fields, str) else list(fields)
