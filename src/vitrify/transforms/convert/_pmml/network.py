"""Multi-layer perceptrons as ``NeuralNetwork``; what the last layer makes of its sums stands behind it.

Source: ``sklearn/neural_network``, https://dmg.org/pmml/v4-4-1/NeuralNetwork.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.transforms.convert._pmml.decisions import shared
from vitrify.transforms.convert._pmml.elements import element, reference
from vitrify.transforms.convert._pmml.matrices import matrix, names
from vitrify.transforms.convert._pmml.models import Model, output
from vitrify.transforms.convert._pmml.walk import Answer, Walk, refuse, writes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from xml.etree.ElementTree import Element

    from vitrify.transforms.convert._pmml.fields import Table

_ACTIVATIONS = {"relu": "rectifier", "tanh": "tanh", "logistic": "logistic", "identity": "identity"}
_MULTIPLE = "several numbers, each of which PMML would compute in a network of its own"


def _layers(model: Any, target: int) -> list[Element]:
    """Return the layers that lead to one of the last layer's sums."""
    last = len(model.coefs_) - 1
    made = []
    for layer, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        places = [target] if layer == last else range(weights.shape[1])
        neurons = [
            element(
                "Neuron",
                {"id": f"{layer + 1},{place}", "bias": float(bias[place])},
                *(
                    element("Con", {"from": f"{layer},{at}", "weight": float(w)})
                    for at, w in enumerate(weights[:, place])
                ),
            )
            for place in places
        ]
        function = "identity" if layer == last else _ACTIVATIONS[model.activation]
        made.append(element("NeuralLayer", {"activationFunction": function, "numberOfNeurons": len(neurons)}, *neurons))
    return made


def _network(walk: Walk, model: Any, columns: Sequence[str], name: str, target: int) -> tuple[Model, str]:
    given, predicted = walk.fields.reserve(name), walk.fields.reserve(f"target of {name}")
    derived = {"optype": "continuous", "dataType": "double"}
    inputs = (
        element("NeuralInput", {"id": f"0,{place}"}, element("DerivedField", derived, reference(column)))
        for place, column in enumerate(columns)
    )
    answer = element("NeuralOutput", {"outputNeuron": f"{len(model.coefs_)},{target}"})
    answer.append(element("DerivedField", derived, reference(predicted)))
    content = (
        element("NeuralInputs", {"numberOfInputs": len(columns)}, *inputs),
        *_layers(model, target),
        element("NeuralOutputs", {"numberOfOutputs": 1}, answer),
    )
    made = (output(given, "predictedValue"),)
    return Model(
        "NeuralNetwork",
        "regression",
        tuple(columns),
        content,
        attributes={"activationFunction": "identity"},
        output=made,
        target=predicted,
    ), given


@writes("sklearn.MLPRegressor")
def regressor(walk: Walk, model: Any, table: Table) -> Answer:
    """The last layer's sum."""
    if model.n_outputs_ > 1:
        refuse(f"predicts {_MULTIPLE}", "train one model a target, or convert to onnx")
    if model.out_activation_ != "identity":
        refuse(f"ends in {model.out_activation_}", "use the squared error")
    network, name = _network(walk, model, names(matrix(walk.fields, table)), "prediction", 0)
    return Answer(chain=(network,), outputs={"prediction": name})


@writes("sklearn.MLPClassifier")
def classifier(walk: Walk, model: Any, table: Table) -> Answer:
    """Logistic for two classes, softmax for more."""
    if model._label_binarizer.y_type_.startswith("multilabel"):  # noqa: SLF001 (no public name)
        refuse("answers with several labels", "convert to onnx, which carries them")
    columns = names(matrix(walk.fields, table))
    chain, scores = [], []
    for target in range(model.n_outputs_):
        network, name = _network(walk, model, columns, f"score_{target}", target)
        chain.append(network)
        scores.append(name)
    return shared(walk.fields, chain, scores, model.classes_)
