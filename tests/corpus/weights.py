"""98 to 112: headers that lie about lengths, shapes and indices."""

from __future__ import annotations

import json
import struct

from corpus import Case, data


def safetensors(header: dict | bytes, content: bytes = bytes(8)) -> bytes:
    """A safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


def _tensor(start: int, end: int, shape: list[int], dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def gguf(count: int = 0, pairs: int = 0, content: bytes = b"") -> bytes:
    """A GGUF file of version 3."""
    return b"GGUF" + struct.pack("<IQQ", 3, count, pairs) + content


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def _entry(key: str, kind: int, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _past_end() -> bytes:
    tensor = _text("w") + struct.pack("<IQIQ", 1, 1 << 20, 0, 0)
    return gguf(1, 0, tensor) + bytes(64)


TEMPLATE = "{{ ''.__class__.__mro__[1].__subclasses__() }}"


def _long_header() -> bytes:
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }" + b" " * (1 << 20) + b"\n"
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + bytes(4)


def _lightgbm(folder, marker):
    import lightgbm
    import numpy as np

    rows = np.random.default_rng(0).normal(size=(200, 3))
    booster = lightgbm.train({"verbose": -1, "num_leaves": 4}, lightgbm.Dataset(rows, rows[:, 0]), 2)
    lines = booster.model_to_string().split("\n")
    at = next(index for index, line in enumerate(lines) if line.startswith("left_child="))
    lines[at] = "left_child=" + " ".join(["-2147483648", *lines[at].partition("=")[2].split()[1:]])
    path = folder / "model.txt"
    path.write_text("\n".join(lines))
    return path


def _xgboost(folder, marker):
    import numpy as np
    import xgboost

    rows = np.random.default_rng(0).normal(size=(200, 3))
    booster = xgboost.train({"max_depth": 2}, xgboost.DMatrix(rows, rows[:, 0]), 1)
    model = json.loads(booster.save_raw("json"))
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["left_children"][1] = 0
    path = folder / "model.json"
    path.write_text(json.dumps(model))
    return path


def _catboost(folder, marker):
    import catboost
    import numpy as np

    rows = np.random.default_rng(0).normal(size=(50, 3))
    model = catboost.CatBoostRegressor(iterations=2, depth=2, verbose=False, allow_writing_files=False).fit(
        rows, rows[:, 0]
    )
    path = folder / "model.cbm"
    model.save_model(path)
    path.write_bytes(path.read_bytes()[:-100])
    return path


MANY = safetensors({f"t{index}": _tensor(0, 0, [0]) for index in range(100_000)}, b"")
HOSTILE = (
    Case("98", "header of 2 to the 63", data(struct.pack("<Q", 1 << 63) + b"{}", "m.safetensors")),
    Case("99", "tensors overlap", data(safetensors({"a": _tensor(0, 8, [2]), "b": _tensor(4, 8, [1])}), "m.safetensors")),
    Case("100", "hole", data(safetensors({"a": _tensor(0, 4, [1]), "b": _tensor(8, 12, [1])}, bytes(12)), "m.safetensors")),
    Case("101", "key twice", data(safetensors(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'), "m.safetensors")),
    Case("102", "shape product overflows", data(safetensors({"a": _tensor(0, 8, [1 << 32, 1 << 32, 2])}), "m.safetensors")),
    Case("104", "deep JSON", data(safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "m.safetensors")),
    Case("105", "GGUF count 2 to the 60", data(gguf(1 << 60, 1 << 60) + bytes(64), "m.gguf"), limit=True),
    Case("106", "tensor past the end", data(_past_end(), "m.gguf")),
    Case("107", "alignment 0", data(gguf(0, 1, _entry("general.alignment", 4, struct.pack("<I", 0))) + bytes(32), "m.gguf")),
    Case("108", "template", data(gguf(0, 1, _entry("tokenizer.chat_template", 8, _text(TEMPLATE))) + bytes(32), "m.gguf")),
    Case("109", "npy header of a megabyte", data(_long_header(), "m.npy"), limit=True),
    Case("110", "child index below all", _lightgbm),
    Case("111", "cyclic children", _xgboost),
    Case("112", "truncated cbm", _catboost),
)  # fmt: skip
"""103, a hundred thousand entries, is large and honest: it stands with the harmless files."""
BENIGN = {"safetensors-100k-entries": lambda folder: data(MANY, "m.safetensors")(folder, folder)}
