"""PMML: models as XML, by the Data Mining Group's schema.

Nothing is evaluated here. What can hurt is what an evaluator may be talked into: entities, which the reader refuses;
code of the evaluator's own language, named in an extension or as a function; data and models elsewhere. A live model is
the document itself, as bytes: only one without such hazards, or whose hazards were allowed by name, is handed out.

Source: https://dmg.org/pmml/v4-4-1/GeneralStructure.html.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats import _facts, _native_file
from vitrify.reading import xml
from vitrify.reading.files import HeldFiles, head
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.reading.xml import Element

MODEL = "model.pmml"
_SUFFIXES = (".pmml", ".xml")
_NAMESPACE = re.compile(r"https?://www\.dmg\.org/PMML")
_SHOWN_VALUES = 1000
_MODELS = frozenset(
    {
        *("AnomalyDetectionModel", "AssociationModel", "BaselineModel", "BayesianNetworkModel", "ClusteringModel"),
        *("GaussianProcessModel", "GeneralRegressionModel", "MiningModel", "NaiveBayesModel", "NearestNeighborModel"),
        *("NeuralNetwork", "RegressionModel", "RuleSetModel", "Scorecard", "SequenceModel"),
        *("SupportVectorMachineModel", "TextModel", "TimeSeriesModel", "TreeModel"),
    }
)
_FUNCTIONS = frozenset(
    {
        *("+", "-", "*", "/", "min", "max", "sum", "avg", "median", "product", "log10", "ln", "sqrt", "abs", "exp"),
        *("pow", "threshold", "floor", "ceil", "round", "modulo", "isMissing", "isNotMissing", "isValid", "isNotValid"),
        *("equal", "notEqual", "lessThan", "lessOrEqual", "greaterThan", "greaterOrEqual", "and", "or", "not", "isIn"),
        *("isNotIn", "if", "uppercase", "lowercase", "stringLength", "substring", "trimBlanks", "concat", "replace"),
        *("matches", "formatNumber", "formatDatetime", "dateDaysSinceYear", "dateSecondsSinceYear"),
        *("dateSecondsSinceMidnight", "normalCDF", "normalPDF", "stdNormalCDF", "stdNormalPDF", "erf", "normalIDF"),
        *("stdNormalIDF", "expm1", "hypot", "ln1p", "rint", "sin", "asin", "sinh", "cos", "acos", "cosh", "tan"),
        *("atan", "tanh"),
    }
)
"""The built-in functions of PMML 4.4.1; a file may define more in terms of them."""
_EXTENDING = frozenset({"Extension", "TableLocator"})
_REFERENCES = frozenset(
    {"href", "url", "uri", "src", "file", "path", "location", "schemalocation", "nonamespaceschemalocation"}
)
_ADDRESS = re.compile(r"(?i)^\s*(?:(?:https?|ftp|file|jar|jdbc|ldaps?|rmi|s3|hdfs|data|jndi):|//|\\\\)")
_CODE = re.compile(r"(?i)^\s*(?:x-)?(?:java|python|javascript|groovy|class)\s*[:/]|^(?:[a-z_]\w*\.){2,}[A-Z]\w*$")


class Pmml:
    """The format of PMML documents, version 1 to 4."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is XML whose first element is PMML's."""
        found = xml.root(head(files, 4096))
        return found is not None and found.tag == "PMML" and (not found.namespace or _is_pmml(found))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return version, application, kinds of model, fields, functions and what the model gives."""
        root = _parse(files, entry)
        models = [element for element in root.walk() if element.tag in _MODELS]
        top = [element for element in root.children if element.tag in _MODELS]
        application = root.find("Header", "Application")
        fields = {one.get("name"): one for one in root.all("DataDictionary", "DataField")}
        header = root.find("Header")
        return _native_file.said(
            {
                "producer": _application(application),
                "versions": {"pmml": root.get("version")},
                "metadata": {
                    key: header.get(key) for key in ("copyright", "description") if header and header.get(key)
                },
                "class": ", ".join(one.tag for one in top),
                "models": _facts.counts(one.tag for one in models),
                "functions": sorted({one.get("functionName") for one in top} - {""}),
                "algorithm": next((one.get("algorithmName") for one in top if one.get("algorithmName")), None),
                "inputs": [_port(name, fields) for name in _used(top, {"active", "", "supplementary"})],
                "targets": [_port(name, fields) for name in _used(top, {"target", "predicted"})],
                "outputs": [_output(one) for model in top for one in model.all("Output", "OutputField")],
                "classes": _classes(top, fields),
                "operators": _facts.counts(one.get("function") for one in root.walk() if one.tag == "Apply"),
                "derived": [one.get("name") for one in root.walk() if one.tag == "DerivedField"][:_SHOWN_VALUES],
                "parameters": sum(one.tag in {"Node", "Con", "NumericPredictor", "PCell"} for one in root.walk()),
                "fields": {name: _values(one) for name, one in fields.items() if one.children},
            }
        )

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield functions that PMML does not have, code that is named, and addresses outside the file."""
        root = _parse(files, entry)
        where = _native_file.find(files, entry, _SUFFIXES)
        defined = {one.get("name") for one in root.walk() if one.tag == "DefineFunction"}
        seen: set[tuple[str, str]] = set()
        for element in root.walk():
            for rule, subject, what in _problems(element, defined):
                if (rule, subject) not in seen:
                    seen.add((rule, subject))
                    yield Finding(place=f"{where}: {element.tag}", message=what, rule=rule, subject=subject)

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write a document, given as bytes or text, to the byte.

        Raises:
            UnsupportedModelError: It is neither.
            MalformedError: It is no PMML.
        """
        del example
        if not isinstance(model, bytes | str):
            msg = f"a {type(model).__name__} is no PMML document, which is bytes or text"
            raise UnsupportedModelError(msg, remedy="convert the model: vitrify convert NAME --to pmml")
        content = model.encode() if isinstance(model, str) else model
        found = self.hazards(HeldFiles({MODEL: memoryview(content)}), {"file": MODEL})
        names = tuple(sorted({finding.subject for finding in found}))
        with sink.open(MODEL, "weight") as stream:
            stream.write(content)
        return Written(entry={"file": MODEL}, names=names)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> bytes:
        """Return the document, if no evaluator can be talked into more by it than ``allow`` says.

        Raises:
            UntrustedCodeError: It names something that an evaluator may run or open, and that nobody allowed.
            MalformedError: It is no PMML, or was cut off.
        """
        where = _native_file.find(files, entry, _SUFFIXES)
        allow.require({finding.subject for finding in self.hazards(files, entry)}, what=where)
        return files.read(where)


def _is_pmml(root: Element) -> bool:
    return bool(_NAMESPACE.match(root.namespace))


def _parse(files: Files, entry: Mapping[str, Any]) -> Element:
    where = _native_file.find(files, entry, _SUFFIXES)
    root = xml.parse(files.map(where), where=where)
    if root.tag != "PMML" or not (not root.namespace or _is_pmml(root)):
        refuse(where, f"the element {root.tag!r} where PMML was expected")
    return root


def _application(element: Element | None) -> str:
    return "" if element is None else " ".join(f"{element.get('name')} {element.get('version')}".split())


def _used(models: list[Element], kinds: set[str]) -> list[str]:
    found = (
        one.get("name")
        for model in models
        for one in model.all("MiningSchema", "MiningField")
        if one.get("usageType") in kinds
    )
    return list(dict.fromkeys(found))


def _port(name: str, fields: Mapping[str, Element]) -> dict[str, Any]:
    return _facts.port(name, fields[name].get("dataType") if name in fields else "", [])


def _output(element: Element) -> dict[str, Any]:
    return _facts.port(element.get("name"), element.get("dataType") or element.get("feature"), [])


def _values(field: Element) -> dict[str, Any]:
    values = [one.get("value") for one in field.all("Value")][:_SHOWN_VALUES]
    ranges = [dict(one.attributes) for one in field.all("Interval")][:_SHOWN_VALUES]
    return _native_file.said({"values": values, "intervals": ranges})


def _classes(models: list[Element], fields: Mapping[str, Element]) -> list[str]:
    """Return the values of the target of a classification."""
    if not any(one.get("functionName") == "classification" for one in models):
        return []
    targets = (fields[name] for name in _used(models, {"target", "predicted"}) if name in fields)
    return [one.get("value") for field in targets for one in field.all("Value")][:_SHOWN_VALUES]


def _problems(element: Element, defined: set[str]) -> Iterator[tuple[str, str, str]]:
    """Yield rule, subject and message of what is wrong with one element."""
    name = element.get("function")
    if element.tag == "Apply" and name not in _FUNCTIONS | defined:
        what = f"calls the function {name!r}, which PMML does not have and the file does not define"
        yield "unknown-function", name, f"{what}: an evaluator looks for code of that name"
    for key, value in [*element.attributes.items(), ("", element.text)]:
        if not _is_reference(element, key):
            continue
        if _ADDRESS.match(value) and not _NAMESPACE.match(value):
            yield "external-address", value[:200], f"names {value[:80]!r}, outside the file: an evaluator may open it"
        elif _CODE.match(value):
            yield "code-reference", value[:200], f"names code, {value[:80]!r}: an evaluator that knows it runs it"


def _is_reference(element: Element, attribute: str) -> bool:
    """Say whether an evaluator takes this for more than a value: categories of honest models are addresses too."""
    return element.tag in _EXTENDING or attribute.rpartition(" ")[2].lower() in _REFERENCES
