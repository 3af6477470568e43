"""What Keras itself may build from a configuration, by exact name; everything else is somebody's code.

``names.txt`` is made from an installed Keras by ``tests/formats/keras_names.py``. What older versions wrote is here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

DATA = frozenset(
    {
        *("__keras_tensor__", "__tensor__", "__numpy__", "__bytes__", "__ellipsis__", "__slice__"),
        *("__tuple__", "TensorShape"),
    }
)
"""Values of these classes are numbers, text or shapes."""

SPECIFICATIONS = frozenset(
    f"tensorflow.python.{place}"
    for place in (
        *("framework.tensor.TensorSpec", "framework.tensor_spec.TensorSpec"),
        *("framework.sparse_tensor.SparseTensorSpec", "ops.ragged.ragged_tensor.RaggedTensorSpec"),
    )
)

_BUILDERS = frozenset({"deserialize", "get", "serialize"})
"""Functions of Keras that build whatever they are told to: no model calls one."""
_OLD_CLASSES = frozenset(
    {
        *("Functional", "Model", "Sequential", "Policy", "AddLoss", "AddMetric", "ThresholdedReLU", "MetricsList"),
        *("CuDNNGRU", "CuDNNLSTM", "LocallyConnected1D", "LocallyConnected2D", "SyncBatchNormalization"),
        *("RandomHeight", "RandomWidth", "CompileMetrics"),
    }
)
_OLD_PLACES = frozenset(
    {
        *("keras.src.models.functional.Functional", "keras.models.functional.Functional"),
        *("keras.src.engine.functional.Functional", "keras.engine.functional.Functional"),
        *("keras.src.engine.sequential.Sequential", "keras.engine.sequential.Sequential", "keras.Functional"),
        *("keras.trainers.compile_utils.MetricsList", "keras.src.trainers.compile_utils.MetricsList"),
        *("keras.src.trainers.compile_utils.CompileMetrics", "keras.mixed_precision.Policy"),
        *("keras.layers.ThresholdedReLU", "keras.layers.LocallyConnected1D", "keras.layers.LocallyConnected2D"),
        *(f"keras.optimizers.legacy.{name}" for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam")),
        *("keras.optimizers.legacy.RMSprop", "keras.optimizers.legacy.SGD", "keras.optimizers.experimental.Adam"),
    }
)
_OLD_WORDS = {
    "losses": {"logcosh", "cosine_proximity", "kullback_leibler_divergence", "bce", "kld"},
    "metrics": {"accuracy", "acc", "crossentropy", "ce", "cosine_proximity"},
}


class Names(NamedTuple):
    """The table.

    Attributes:
        classes: Full names.
        functions: Full names.
        bare: Names of classes that older files write without a module.
        called: Names of functions that Keras writes without one, all as "builtins".
        words: By role (``activations``, ``losses`` ...): the short names that stand for something of Keras.
    """

    classes: frozenset[str]
    functions: frozenset[str]
    bare: frozenset[str]
    called: frozenset[str]
    words: dict[str, frozenset[str]]


@cache
def names() -> Names:
    """Return the table."""
    classes, functions, bare = set(_OLD_PLACES), set[str](), set(_OLD_CLASSES)
    words: dict[str, frozenset[str]] = {}
    for line in Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines():
        kind, module, *listed = line.split()
        if kind == "word":
            words[module] = frozenset(listed) | frozenset(_OLD_WORDS.get(module, ()))
        else:
            listed = [name for name in listed if kind == "class" or name not in _BUILDERS]
            (classes if kind == "class" else functions).update(f"{module}.{name}" for name in listed)
            bare.update(listed if kind == "class" else ())
            # TensorFlow 2.11 and 2.12 wrote Keras' own optimizers so.
            bare.update(f"Custom>{name}" for name in listed if module == "keras.optimizers")
    called = {name.rpartition(".")[2] for name in functions}.union(*words.values())
    return Names(frozenset(classes), frozenset(functions), frozenset(bare), frozenset(called), words)
