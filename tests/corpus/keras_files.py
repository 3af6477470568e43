"""77 to 85: Keras files whose configuration names code, and HDF5 files that reach out of themselves."""

from __future__ import annotations

import base64
import io
import json
import marshal
import zipfile

from corpus import Case
from corpus.assemble import source

METADATA = {"keras_version": "3.15.1", "date_saved": "2026-01-01@00:00:00"}
INPUT = {
    "module": "keras.layers",
    "class_name": "InputLayer",
    "config": {"batch_shape": [None, 3], "dtype": "float32", "name": "input"},
    "registered_name": None,
}


def sequential(*layers: dict) -> dict:
    """The configuration of a model of these layers, as Keras 3 writes it."""
    config = {"name": "sequential", "trainable": True, "dtype": "float32", "layers": [INPUT, *layers]}
    return {"module": "keras", "class_name": "Sequential", "config": config, "registered_name": None}


def layer(name: str, config: dict, module: str = "keras.layers", registered: str | None = None) -> dict:
    """A layer's configuration."""
    return {
        "module": module,
        "class_name": name,
        "config": {"name": name.lower(), **config},
        "registered_name": registered,
    }


def _marshalled(marker: str) -> str:
    code = compile(f"lambda x: {source(marker)} or x", "model", "eval").co_consts[0]
    return base64.b64encode(marshal.dumps(code)).decode()


def lambda_layer(marker: str) -> dict:
    """A Lambda layer whose code is marshalled, as Keras 3 writes it."""
    function = {"class_name": "__lambda__", "config": {"code": _marshalled(marker), "defaults": None, "closure": None}}
    return layer("Lambda", {"function": function})


def archive(folder, config: dict | bytes, *, method: int = zipfile.ZIP_STORED, extra: dict[str, bytes] | None = None):
    """A ``.keras`` file."""
    import h5py

    path = folder / "model.keras"
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        file.create_group("layers")
    with zipfile.ZipFile(path, "w", method) as written:
        written.writestr("metadata.json", json.dumps(METADATA))
        written.writestr("config.json", config if isinstance(config, bytes) else json.dumps(config))
        written.writestr("model.weights.h5", weights.getvalue())
        for name, content in (extra or {}).items():
            written.writestr(name, content)
    return path


def _h5(folder, config: dict | None = None, name: str = "model.h5"):
    import h5py

    path = folder / name
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"], file.attrs["backend"] = "2.15.0", "tensorflow"
        if config:
            file.attrs["model_config"] = json.dumps(config)
        file.create_group("model_weights").attrs["layer_names"] = [b"dense"]
    return path


def _callable_in_config(folder, marker):
    return archive(
        folder,
        sequential(
            layer(
                "Dense",
                {
                    "units": 2,
                    "activation": {
                        "module": "os",
                        "class_name": "function",
                        "config": "system",
                        "registered_name": "system",
                    },
                },
            )
        ),
    )


def _switch_off(folder, marker):
    call = {
        "module": "keras.config",
        "class_name": "function",
        "config": "enable_unsafe_deserialization",
        "registered_name": "function",
    }
    return archive(
        folder, sequential(layer("Dense", {"units": 2, "kernel_initializer": call}), lambda_layer(str(marker)))
    )


def _h5_lambda(folder, marker):
    function = [_marshalled(str(marker)), None, None]
    layers = [
        {
            "class_name": "Lambda",
            "config": {"name": "l", "function": function, "function_type": "lambda", "module": "m"},
        }
    ]
    return _h5(folder, {"class_name": "Sequential", "config": {"name": "s", "layers": layers}})


def _vocabulary(folder, marker):
    return archive(folder, sequential(layer("StringLookup", {"vocabulary": "/etc/passwd", "max_tokens": None})))


def _link(kind: str):
    def make(folder, marker):
        import h5py

        path = _h5(folder)
        with h5py.File(path, "a") as file:
            file["model_weights/secret"] = (
                h5py.ExternalLink("/etc/passwd", "/x") if kind == "external" else h5py.SoftLink("/nowhere/else")
            )
        return path

    return make


def _virtual(folder, marker):
    import h5py

    path = _h5(folder)
    with h5py.File(path, "a") as file:
        layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
        layout[:] = h5py.VirtualSource("/etc/other.h5", "x", shape=(4,))
        file.create_virtual_dataset("model_weights/kernel", layout)
    return path


def _external(folder, marker):
    import h5py

    path = _h5(folder)
    with h5py.File(path, "a") as file:
        file.create_dataset("model_weights/kernel", (16,), dtype="u1", external=[("/etc/passwd", 0, 16)])
    return path


def _shape_bomb(folder, marker):
    import h5py

    path = _h5(folder)
    with h5py.File(path, "a") as file:
        file.create_dataset("model_weights/kernel", (1 << 40,), dtype="f8", chunks=(1 << 20,))
    return path


def _deflate_bomb(folder, marker):
    return archive(folder, b'{"a": "' + b" " * (300 << 20) + b'"}', method=zipfile.ZIP_DEFLATED)


HOSTILE = (
    Case("77", "Lambda layer", lambda folder, marker: archive(folder, sequential(lambda_layer(str(marker))))),
    Case("78", "config names os.system", _callable_in_config),
    Case("79", "config switches safety off", _switch_off),
    Case("80", "Lambda layer in h5", _h5_lambda),
    Case("81", "vocabulary from a path", _vocabulary),
    Case("82", "external link", _link("external")),
    Case("82b", "dangling soft link", _link("soft")),
    Case("83", "virtual dataset of another file", _virtual),
    Case("83b", "dataset in an external file", _external),
    Case("84", "shape bomb", _shape_bomb, limit=True),
    Case("85", "deflate bomb", _deflate_bomb, limit=True),
)  # fmt: skip
