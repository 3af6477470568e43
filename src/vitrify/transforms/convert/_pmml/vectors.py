"""Support vector machines as ``SupportVectorMachineModel``.

Source: ``sklearn/svm``, https://dmg.org/pmml/v4-4-1/SupportVectorMachine.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.decisions import chosen
from vitrify.transforms.convert._pmml.elements import array, element, reference
from vitrify.transforms.convert._pmml.fields import F64
from vitrify.transforms.convert._pmml.matrices import matrix, names
from vitrify.transforms.convert._pmml.models import Model, output
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Table

_BINARY = 2


def _machine(walk: Walk, model: Any, table: Table, name: str) -> tuple[Model, str]:
    """Return the sum over the support vectors, and its field."""
    columns, given = names(matrix(walk.fields, table, F64)), walk.fields.reserve(name)
    vectors, weights = np.asarray(model.support_vectors_), np.ravel(model.dual_coef_)
    instances = (
        element("VectorInstance", {"id": str(place)}, array(vector)) for place, vector in enumerate(vectors, start=1)
    )
    dictionary = element(
        "VectorDictionary",
        {"numberOfVectors": len(vectors)},
        element("VectorFields", {}, *map(reference, columns)),
        *instances,
    )
    machine = element(
        "SupportVectorMachine",
        {},
        element(
            "SupportVectors", {}, *(element("SupportVector", {"vectorId": str(at + 1)}) for at in range(len(vectors)))
        ),
        element(
            "Coefficients",
            {"absoluteValue": float(np.ravel(model.intercept_)[0])},
            *(element("Coefficient", {"value": float(weight)}) for weight in weights),
        ),
    )
    return Model(
        "SupportVectorMachineModel",
        "regression",
        tuple(columns),
        (_kernel(model), dictionary, machine),
        attributes={"svmRepresentation": "SupportVectors"},
        output=(output(given, "predictedValue"),),
    ), given


def _kernel(model: Any) -> Element:
    gamma = float(model._gamma)  # noqa: SLF001 (what "scale" and "auto" came to)
    match model.kernel:
        case "linear":
            return element("LinearKernelType")
        case "poly":
            about = {"gamma": gamma, "coef0": float(model.coef0), "degree": float(model.degree)}
            return element("PolynomialKernelType", about)
        case "rbf":
            return element("RadialBasisKernelType", {"gamma": gamma})
        case "sigmoid":
            return element("SigmoidKernelType", {"gamma": gamma, "coef0": float(model.coef0)})
    return refuse(f"has the kernel {model.kernel!r}", "use linear, poly, rbf or sigmoid")


@writes("sklearn.SVR", "sklearn.NuSVR")
def regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The sum."""
    machine, name = _machine(walk, model, table, "prediction")
    return Answer(chain=(machine,), outputs={"prediction": name})


@writes("sklearn.SVC", "sklearn.NuSVC")
def classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """The sign of the sum, of two classes."""
    if len(model.classes_) > _BINARY:
        refuse("votes between pairs of classes", "train it on two classes, or convert to onnx")
    if hasattr(model, "predict_proba"):
        refuse("has probabilities by Platt's scaling", "train it with probability=False, or convert to onnx")
    machine, name = _machine(walk, model, table, "score")
    return chosen(walk.fields, [machine], [name], model.classes_)


@writes("sklearn.OneClassSVM")
def one_class(walk: Walk, model: Any, table: Table) -> Answer:
    """1 for an inlier and -1 for an outlier."""
    machine, name = _machine(walk, model, table, "score")
    return chosen(walk.fields, [machine], [name], [-1, 1])
