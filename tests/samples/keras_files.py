"""Samples of HDF5 and Keras: written by h5py and by Keras itself, in a process of its own, once a session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path

SCRIPT = """
import sys, warnings
warnings.simplefilter("ignore")
import numpy as np, keras
from keras import layers
folder = sys.argv[1]
keras.utils.set_random_seed(0)

stack = [layers.Dense(3, activation="relu"), layers.Dropout(0.5), layers.Dense(2)]
sequential = keras.Sequential([keras.Input((4,)), *stack])
sequential.compile("adam", "mse", metrics=["mae"])
sequential.fit(np.zeros((4, 4)), np.zeros((4, 2)), verbose=0)

image, number = keras.Input((8, 8, 1), name="image"), keras.Input((3,), name="number")
convolved = layers.Conv2D(2, 3, activation=keras.activations.gelu, kernel_regularizer="l2")(image)
pooled = layers.GlobalAveragePooling2D()(keras.ops.relu(layers.BatchNormalization()(convolved) + 1.0))
joined = layers.Concatenate()([pooled, number])
functional = keras.Model([image, number], [layers.Dense(1, name="score")(joined), layers.Softmax(name="class")(joined)])
functional.compile(
    keras.optimizers.AdamW(keras.optimizers.schedules.CosineDecay(0.1, 10)),
    {"score": keras.losses.Huber(), "class": "categorical_crossentropy"},
    metrics={"class": ["accuracy", keras.metrics.AUC()]},
)

start = keras.Input((6, 5), name="steps")
inner = keras.Sequential([layers.Dense(5, activation="tanh"), layers.LayerNormalization()], name="inner")
attended = layers.MultiHeadAttention(2, 3)(inner(start), inner(start))
recurrent = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(attended)
nested = keras.Model(start, layers.TimeDistributed(layers.Dense(2))(recurrent), name="outer")

words = keras.Input((1,), dtype="string", name="words")
looked_up = layers.StringLookup(vocabulary=["cat", "dog", "a/b", "http://x"], output_mode="one_hot")(words)
vectors = layers.TextVectorization(output_mode="multi_hot")
vectors.adapt(["cat dog", "dog"])
looked_up = layers.Concatenate()([layers.Flatten()(looked_up), layers.Flatten()(vectors(words))])
text = keras.Model(words, layers.Dense(1)(looked_up), name="text")

for name, model in {"sequential": sequential, "functional": functional, "nested": nested, "text": text}.items():
    model.save(f"{folder}/{name}.keras")
sequential.save(f"{folder}/model.h5")
functional.save(f"{folder}/functional.h5")
nested.save(f"{folder}/nested.h5")
sequential.save_weights(f"{folder}/model.weights.h5")
"""

KERAS_2 = {
    "class_name": "Functional",
    "config": {
        "name": "model",
        "trainable": True,
        "layers": [
            {
                "class_name": "InputLayer",
                "config": {"batch_input_shape": [None, 4], "dtype": "float32", "name": "input_1"},
                "name": "input_1",
                "inbound_nodes": [],
            },
            {
                "class_name": "Dense",
                "config": {
                    "name": "dense",
                    "dtype": {"class_name": "Policy", "config": {"name": "mixed_float16"}},
                    "units": 3,
                    "activation": "relu",
                    "kernel_initializer": {
                        "class_name": "GlorotUniform",
                        "config": {"seed": None},
                        "shared_object_id": 1,
                    },
                    "bias_initializer": "zeros",
                },
                "name": "dense",
                "inbound_nodes": [[["input_1", 0, 0, {}]]],
            },
            {
                "class_name": "Concatenate",
                "config": {"name": "both", "axis": -1},
                "name": "both",
                "inbound_nodes": [[["dense", 0, 0, {}], ["input_1", 0, 0, {}]]],
            },
        ],
        "input_layers": [["input_1", 0, 0]],
        "output_layers": [["both", 0, 0]],
    },
}
TRAINING_2 = {
    "loss": {
        "class_name": "MeanSquaredError",
        "config": {"reduction": "auto", "name": "mse", "fn": "mean_squared_error"},
    },
    "metrics": [[{"class_name": "MeanMetricWrapper", "config": {"name": "accuracy", "fn": "binary_accuracy"}}]],
    "optimizer_config": {"class_name": "Custom>Adam", "config": {"name": "Adam", "learning_rate": 0.001}},
}


@cache
def written():
    """Return by name the bytes of what Keras wrote."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        command = [sys.executable, "-c", SCRIPT, folder]
        made = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def copy(name, folder):
    path = folder / name
    path.write_bytes(written()[name])
    return path


def keras_2(folder, config=KERAS_2, training=TRAINING_2):
    """Write what Keras 2 would have: attributes as bytes, weights by layer."""
    import h5py
    import numpy as np

    path = folder / "model.h5"
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"], file.attrs["backend"] = b"2.12.0", b"tensorflow"
        file.attrs["model_config"] = json.dumps(config).encode()
        file.attrs["training_config"] = json.dumps(training).encode()
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = np.array([b"input_1", b"dense", b"both"])
        weights.create_group("dense").attrs["weight_names"] = np.array([b"dense/kernel:0", b"dense/bias:0"])
        weights["dense/dense/kernel:0"] = np.ones((4, 3), np.float32)
        weights["dense/dense/bias:0"] = np.zeros(3, np.float32)
    return path


def plain(folder, **options):
    """Write one of everything that h5py writes and that stays in the file."""
    import h5py
    import numpy as np

    path = folder / "data.hdf5"
    with h5py.File(path, "w", **options) as file:
        file.attrs["title"], file.attrs["sizes"] = "things", np.arange(3)
        for number in range(20):
            file.create_group(f"many/{number}").attrs["number"] = number
        file["a/weights"] = np.arange(12, dtype=np.float32).reshape(3, 4)
        file["a/half"] = np.ones(3, np.float16)
        file.create_dataset("packed", data=np.arange(999), chunks=(100,), compression="gzip", shuffle=True)
        file["words"] = np.array(["one", "two"], dtype=object)
        file["soft"] = h5py.SoftLink("/a/weights")
        file["again"] = file["a"]
    return path


SAMPLES = {
    "keras/sequential": partial(copy, "sequential.keras"),
    "keras/functional": partial(copy, "functional.keras"),
    "keras/nested": partial(copy, "nested.keras"),
    "keras/text": partial(copy, "text.keras"),
    "keras-h5/model": partial(copy, "model.h5"),
    "keras-h5/functional": partial(copy, "functional.h5"),
    "keras-h5/nested": partial(copy, "nested.h5"),
    "keras-h5/weights": partial(copy, "model.weights.h5"),
    "keras-h5/keras-2": keras_2,
    "hdf5/plain": plain,
    "hdf5/latest": partial(plain, libver="latest"),
}
