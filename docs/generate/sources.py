"""A small model of every framework, as its users would make it: what the page of conversions is made from.

Each function returns a model and what ``vitrify.save`` takes besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Made = tuple[Any, dict[str, Any]]
RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(200, 4))
LABELS = (TABLE[:, 0] + TABLE[:, 1] ** 2 > 0.5).astype(int)
PICTURES = RNG.normal(size=(6, 1, 8, 8)).astype(np.float32)


def sklearn_pipeline() -> Made:
    """A random forest behind a scaler."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RandomForestClassifier(20, max_depth=5, random_state=0))
    return model.fit(TABLE, LABELS), {"example": TABLE}


def sklearn_frame() -> Made:
    """A linear model behind one-hot and imputed columns of a data frame."""
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.DataFrame({"age": TABLE[:, 0], "city": np.where(TABLE[:, 1] > 0, "Oslo", "Rome")})
    frame.loc[::7, "age"] = np.nan
    columns = make_column_transformer((SimpleImputer(), ["age"]), (OneHotEncoder(handle_unknown="ignore"), ["city"]))
    return make_pipeline(columns, LogisticRegression()).fit(frame, LABELS), {"example": frame}


def xgboost_classifier() -> Made:
    """Thirty rounds, two classes."""
    from xgboost import XGBClassifier

    return XGBClassifier(n_estimators=30, max_depth=4, random_state=0).fit(TABLE, LABELS), {"example": TABLE}


def lightgbm_regressor() -> Made:
    """Thirty rounds."""
    from lightgbm import LGBMRegressor

    return LGBMRegressor(n_estimators=30, verbose=-1, random_state=0).fit(TABLE, TABLE[:, 0]), {"example": TABLE}


def catboost_regressor() -> Made:
    """Thirty rounds on numbers."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(iterations=30, depth=4, verbose=False, random_seed=0, allow_writing_files=False)
    return model.fit(TABLE, TABLE[:, 0]), {"example": TABLE}


def statsmodels_glm() -> Made:
    """A Poisson regression."""
    import statsmodels.api as sm

    counts = RNG.poisson(np.exp(0.3 * TABLE[:, 0]))
    design = sm.add_constant(TABLE[:, :2])
    return sm.GLM(counts, design, family=sm.families.Poisson()).fit(), {"example": design}


def _net() -> Any:
    import torch

    torch.manual_seed(0)
    layers = torch.nn
    return layers.Sequential(
        layers.Conv2d(1, 4, 3, padding=1),
        layers.BatchNorm2d(4),
        layers.ReLU(),
        layers.MaxPool2d(2),
        layers.Flatten(),
        layers.Linear(64, 3),
        layers.Softmax(dim=1),
    ).eval()


def torch_module() -> Made:
    """A small convolutional network."""
    import torch

    return _net(), {"example": torch.from_numpy(PICTURES)}


def torchscript() -> Made:
    """The same, scripted."""
    import torch

    return torch.jit.script(_net()), {"example": torch.from_numpy(PICTURES)}


def keras_model() -> Made:
    """A small convolutional network."""
    import keras

    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return model, {"example": PICTURES.transpose(0, 2, 3, 1)}


def tensorflow_module() -> Made:
    """A function over variables."""
    import tensorflow as tf

    class Dense(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(RNG.normal(size=(4, 3)).astype(np.float32), name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            return {"y": tf.nn.softmax(tf.tanh(x @ self.w))}

    return Dense(), {"example": TABLE.astype(np.float32)}


def jax_function() -> Made:
    """A jitted function over constants."""
    import jax
    import jax.numpy as jnp

    w = RNG.normal(size=(4, 3)).astype(np.float32)
    return jax.jit(lambda x: jax.nn.softmax(jnp.tanh(x @ w))), {
        "example": TABLE.astype(np.float32),
        "format": "jax-export",
    }


def flax_module() -> Made:
    """A perceptron of flax.nnx."""
    from flax import nnx

    class Perceptron(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.first, self.last = nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 2, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.last(nnx.gelu(self.first(x)))

    return Perceptron(nnx.Rngs(0)), {"example": TABLE.astype(np.float32), "format": "jax-export"}


def transformer() -> Made:
    """A tiny BERT with random weights."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertModel(BertConfig(vocab_size=50, max_position_embeddings=32, **sizes)).eval()
    ids = torch.from_numpy(RNG.integers(1, 50, (4, 7)))
    return model, {"example": {"input_ids": ids, "attention_mask": torch.ones_like(ids)}}


def onnx_model() -> Made:
    """A graph made by hand."""
    import onnx
    from onnx import helper, numpy_helper

    x, y = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", size])
        for name, size in (("x", 4), ("y", 3))
    )
    w = numpy_helper.from_array(RNG.normal(size=(4, 3)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], axis=1)]
    graph = helper.make_graph(nodes, "dense", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {"example": {"x": TABLE.astype(np.float32)}}


SOURCES = {
    "scikit-learn: scaler and forest": sklearn_pipeline,
    "scikit-learn: data frame": sklearn_frame,
    "XGBoost": xgboost_classifier,
    "LightGBM": lightgbm_regressor,
    "CatBoost": catboost_regressor,
    "statsmodels": statsmodels_glm,
    "PyTorch": torch_module,
    "TorchScript": torchscript,
    "Transformers": transformer,
    "Keras": keras_model,
    "TensorFlow": tensorflow_module,
    "JAX": jax_function,
    "Flax": flax_module,
    "ONNX": onnx_model,
}
"""What stands in front of each row of the page, in order."""
