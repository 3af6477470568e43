"""77 to 85 by other hands: the same code and the same paths, elsewhere in the configuration and in other layouts."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np

from corpus import Case
from corpus.keras_files import INPUT, METADATA, archive, lambda_layer, layer, sequential


def _archive(*layers: dict, **more: object):
    def make(folder, marker):
        return archive(folder, {**sequential(*layers), **more})

    return make


def _with_lambda(wrap):
    """A model in which ``wrap`` has put the Lambda layer somewhere."""
    return lambda folder, marker: archive(folder, sequential(wrap(lambda_layer(str(marker)))))


def _named(name: str, module: str = "builtins") -> dict:
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


def _nested(levels: int):
    def wrap(inner: dict) -> dict:
        for _ in range(levels):
            inner = sequential(inner)
        return inner

    return wrap


def _only_the_configuration(folder, marker):
    """Keras builds the model, and so the Lambda, before it asks for weights or metadata."""
    path = folder / "model.keras"
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("config.json", json.dumps(sequential(lambda_layer(str(marker)))))
    return path


def _npz_weights(folder, marker):
    path, weights = folder / "model.keras", io.BytesIO()
    np.savez(weights, w=np.zeros(2))
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("config.json", json.dumps(sequential(lambda_layer(str(marker)))))
        written.writestr("model.weights.npz", weights.getvalue())
    return path


def _architecture(folder, marker):
    """What ``model.to_json()`` gives, for ``model_from_json``."""
    path = folder / "architecture.json"
    path.write_text(json.dumps(sequential(lambda_layer(str(marker)))))
    return path


def _unzipped(more: dict | None = None):
    """``model.save(..., zipped=False)``; with ``more`` the configuration is another library's too."""

    def make(folder, marker):
        path = folder / "saved"
        path.mkdir()
        (path / "config.json").write_text(json.dumps({**sequential(lambda_layer(str(marker))), **(more or {})}))
        (path / "metadata.json").write_text(json.dumps(METADATA))
        (path / "notes.txt").write_text("words\n")
        return path

    return make


def _shards(location: str):
    """Weights in several files: their index says which file has which layer."""

    def make(folder, marker):
        index = {"metadata": {"total_size": 8}, "weight_map": {"/layers/dense/vars": location}}
        return archive(folder, sequential(), extra={"model.weights.json": json.dumps(index).encode()})

    return make


def _script(folder, marker):
    code = f"import os\nos.system('touch {marker}')\n".encode()
    return archive(folder, sequential(), extra={"custom_objects.py": code})


def _old(config: dict, name: str = "model.h5", **attributes: object):
    """A file of Keras 1 or 2."""

    def make(folder, marker):
        import h5py

        path = folder / name
        with h5py.File(path, "w") as file:
            file.attrs["keras_version"] = "2.2.4"
            file.attrs["model_config"] = json.dumps(config)
            for key, value in attributes.items():
                file.attrs[key] = json.dumps(value)
            file.create_group("model_weights")
        return path

    return make


def _old_layer(name: str, config: dict) -> dict:
    return {"class_name": "Sequential", "config": [{"class_name": name, "config": {"name": "a", **config}}]}


def _user_block(folder, marker):
    """A pickle in the block before the superblock, which HDF5 leaves to the user."""
    import h5py

    from corpus.opcodes import plain

    path = folder / "model.h5"
    with h5py.File(path, "w", userblock_size=512) as file:
        file.attrs["keras_version"] = "2.15.0"
        file.create_group("model_weights")
    payload = plain(str(marker))
    with path.open("r+b") as stream:
        stream.write(payload)
    return path


def _weights_link(folder, marker):
    import h5py

    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file["layers/dense/vars/0"] = h5py.ExternalLink("../other.h5", "/x")
    path = folder / "model.keras"
    with zipfile.ZipFile(path, "w") as written:
        written.writestr("metadata.json", json.dumps(METADATA))
        written.writestr("config.json", json.dumps(sequential()))
        written.writestr("model.weights.h5", weights.getvalue())
    return path


def _asset_link(folder, marker):
    import h5py

    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file["x"] = h5py.ExternalLink(os.fspath("/etc/other.h5"), "/x")
    return archive(folder, sequential(), extra={"assets/lookup/vocabulary.h5": weights.getvalue()})


_PATH = "/etc/hostname"
_SHARED = {"module": "keras.layers", "class_name": "Dense", "config": {"units": 2}, "registered_name": "evil>Dense"}
HOSTILE = (
    Case("77b", "Lambda in TimeDistributed", _with_lambda(lambda one: layer("TimeDistributed", {"layer": one}))),
    Case("77c", "Lambda in Bidirectional", _with_lambda(lambda one: layer("Bidirectional", {"layer": layer("LSTM", {"units": 1}), "backward_layer": one}))),
    Case("77d", "Lambda nine models deep", _with_lambda(_nested(9))),
    Case("77e", "Lambda in build_config", lambda f, m: archive(f, {**sequential(), "build_config": {"input_shape": [[[lambda_layer(str(m))]]]}})),
    Case("77f", "lambda in compile_config", lambda f, m: archive(f, {**sequential(), "compile_config": {"loss": {"out": [lambda_layer(str(m))["config"]["function"]]}}})),
    Case("77g", "Lambda and nothing but a configuration", _only_the_configuration),
    Case("77h", "Lambda with npz weights", _npz_weights),
    Case("77i", "Lambda in an architecture as JSON", _architecture),
    Case("77j", "Lambda in a folder", _unzipped()),
    Case("77k", "Lambda in a folder of two libraries", _unzipped({"model_type": "bert", "architectures": ["BertModel"]})),
    Case("77l", "Lambda by its registered name", _archive({"module": None, "class_name": "Lambda", "config": {"function": "system", "module": "os"}, "registered_name": "keras>Lambda"})),
    Case("77m", "lambda as a value in a list", lambda f, m: archive(f, sequential(layer("Dense", {"units": 2, "extra": [[{"deep": [lambda_layer(str(m))["config"]["function"]]}]]})))),
    Case("77n", "Python beside the configuration", _script),
    Case("78b", "builtins eval", _archive(layer("Dense", {"units": 2, "activation": _named("eval")}))),
    Case("78c", "class of os", _archive({"module": "os", "class_name": "system", "config": {"command": "x"}, "registered_name": None})),
    Case("78d", "registered name of a stranger", _archive(_SHARED)),
    Case("78e", "metric of a stranger", _archive(compile_config={"metrics": [[_named("Popen", "subprocess")]], "optimizer": "adam"})),
    Case("78f", "cell of a stranger", _archive(layer("RNN", {"cell": {"module": "evil.cells", "class_name": "Cell", "config": {}, "registered_name": "Cell"}}))),
    Case("78g", "module of Keras but no layer", _archive({"module": "keras.utils", "class_name": "get_file", "config": {"fname": "a", "origin": "b"}, "registered_name": None})),
    Case("78h", "class name is no text", _archive({"module": "keras.layers", "class_name": ["Dense"], "config": {}, "registered_name": None})),
    Case("78i", "initializer by dotted text", _archive(layer("Dense", {"units": 2, "kernel_initializer": "os.system"}))),
    Case("78j", "a deserializer as a function", _archive(layer("Lambda", {"function": "deserialize", "module": "keras.losses", "function_type": "function", "arguments": {"custom_objects": None}}))),
    Case("79b", "load_model as a function", _archive(layer("Dense", {"units": 2, "activation": _named("load_model", "keras.saving")}))),
    Case("80b", "Lambda in an h5 of Keras 1", _old(_old_layer("Lambda", {"function": ["4wAAAA==", None, None], "function_type": "lambda"}))),
    Case("80c", "function of a module in h5", _old(_old_layer("Lambda", {"function": "system", "function_type": "function", "module": "os"}))),
    Case("80d", "Merge by a function in h5", _old(_old_layer("Merge", {"mode": "4wAAAA==", "mode_type": "lambda", "layers": []}))),
    Case("80e", "loss of a stranger in h5", _old(_old_layer("Dense", {"units": 1}), training_config={"loss": "os.system", "metrics": [], "optimizer_config": {"class_name": "SGD", "config": {}}})),
    Case("80f", "Lambda in a wrapper in h5", _old(_old_layer("TimeDistributed", {"layer": {"class_name": "Lambda", "config": {"function": ["4wAAAA==", None, None], "function_type": "lambda"}}}))),
    Case("81b", "vocabulary of a text layer", _archive(layer("TextVectorization", {"vocabulary": _PATH}))),
    Case("81c", "weights of inverse frequency", _archive(layer("StringLookup", {"vocabulary": ["a"], "idf_weights": "../../secret.txt"}))),
    Case("81d", "TFSMLayer", _archive(layer("TFSMLayer", {"filepath": "https://example.org/model", "call_endpoint": "serve"}))),
    Case("81e", "vocabulary deep in a feature space", _archive(layer("FeatureSpace", {"features": {"a": {"preprocessor": layer("IntegerLookup", {"vocabulary": "vocabulary.txt"})}}}))),
    Case("82c", "external link in weights", _weights_link),
    Case("82d", "external link in an asset", _asset_link),
    Case("82e", "shard above the archive", _shards("../../../secret.weights.h5")),
    Case("82f", "shard elsewhere", _shards("/etc/secret.weights.h5")),
    Case("82g", "pickle in the user block", _user_block),
)  # fmt: skip
BENIGN = {
    "keras-architecture-json": lambda folder: _written(folder, sequential(layer("Dense", {"units": 2, "activation": "relu"}))),
    "keras-shards": lambda folder: _shards("model_00000.weights.h5")(folder, folder),
    "keras-input-alone": lambda folder: _written(folder, {"class_name": "Sequential", "config": {"layers": [INPUT]}}),
}  # fmt: skip


def _written(folder, config: dict):
    path = folder / "architecture.json"
    path.write_text(json.dumps(config))
    return path
