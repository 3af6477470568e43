"""Makes the table of what Keras itself may build from a configuration: ``python -m formats.keras_names``."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections import defaultdict
from pathlib import Path

TABLE = Path(__file__).parents[2] / "src/vitrify/formats/_keras/names.txt"
BUILDERS = (
    *("keras", "keras.layers", "keras.losses", "keras.metrics", "keras.models", "keras.initializers"),
    *("keras.constraints", "keras.regularizers", "keras.optimizers", "keras.optimizers.schedules", "keras.random"),
    *("keras.dtype_policies", "keras.quantizers", "keras.distillation", "keras._legacy.layers", "keras._legacy.losses"),
)
FUNCTIONS = (
    *("keras.activations", "keras.losses", "keras.metrics", "keras.ops", "keras.ops.image"),
    *("keras.initializers", "keras.regularizers", "keras.constraints", "keras._legacy.losses"),
)
WORDS = (
    "activations",
    "constraints",
    "dtype_policies",
    "initializers",
    "losses",
    "metrics",
    "optimizers",
    "regularizers",
)
RUNS = {"Lambda", "TFSMLayer", "TorchModuleWrapper"}
"""What they hold is code: each has a rule of its own."""
SKIPPED = (
    "_test",
    ".backend.torch",
    ".backend.tensorflow",
    ".backend.openvino",
    ".testing",
    ".applications",
    ".export",
)


def table():
    """Return lines of a kind, a module and its names: classes, functions, and words that stand for either."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras.src
    from keras.src import api_export

    found = defaultdict(set)
    for dotted, value in api_export.REGISTERED_NAMES_TO_OBJS.items():
        module, _, name = dotted.rpartition(".")
        if inspect.isclass(value) and hasattr(value, "from_config") and module in BUILDERS and name not in RUNS:
            found["class", module].add(name)
        elif inspect.isfunction(value) and module in FUNCTIONS:
            found["function", module].add(name)
    for module in pkgutil.walk_packages(keras.src.__path__, "keras.src."):
        listed = () if any(part in module.name for part in SKIPPED) else saveable(importlib.import_module(module.name))
        for name in listed:
            found["class", module.name].add(name)
    for role in WORDS:
        words = importlib.import_module(f"keras.src.{role}")
        listed = getattr(words, "ALL_OBJECTS_DICT", {})
        found["word", role] |= set(listed)
    return "".join(f"{kind} {module} {' '.join(sorted(names))}\n" for (kind, module), names in sorted(found.items()))


def saveable(module):
    """Return the classes of a module that Keras builds by the module's own name."""
    from keras.src.saving.keras_saveable import KerasSaveable

    own = {name: value for name, value in vars(module).items() if inspect.isclass(value) and name == value.__name__}
    mine = {name for name, value in own.items() if value.__module__ == module.__name__}
    return {name for name in mine if issubclass(own[name], KerasSaveable)} - RUNS


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
