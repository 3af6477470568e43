"""Weights and trees in one file: GGUF, safetensors, PMML, PFA and the files of the boosters."""

import json
import struct
from functools import cache

import numpy as np

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"
    "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
ROWS = np.random.default_rng(0).normal(size=(80, 3))
SIDE = (ROWS[:, 0] > 0).astype(int)


def kept(name, make):
    """Return a sample that writes the bytes of ``make``, which is asked once."""
    content = cache(make)

    def sample(folder):
        path = folder / name
        path.write_bytes(content())
        return path

    return sample


def through_file(name, save):
    """Return the bytes that a library writes to a path."""

    def make():
        import tempfile
        from pathlib import Path

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            save(path)
            return path.read_bytes()

    return make


def gguf(big=False, tokens=0, tensors=True):
    def save(path):
        from gguf import GGMLQuantizationType, GGUFEndian, GGUFWriter
        from gguf.quants import quantize

        writer = GGUFWriter(path, "llama", endianess=GGUFEndian.BIG if big else GGUFEndian.LITTLE)
        writer.add_name("tiny")
        writer.add_license("apache-2.0")
        writer.add_context_length(2048)
        writer.add_chat_template(CHATML)
        if tokens:
            writer.add_tokenizer_model("gpt2")
            writer.add_token_list([f"token{index}" for index in range(tokens)])
            writer.add_token_types([1] * tokens)
        if tensors:
            writer.add_file_type(2)
            weights = np.random.default_rng(0).normal(size=(4, 64)).astype("f4")
            writer.add_tensor("output_norm.weight", weights[0].copy())
            if not big:
                kind = GGMLQuantizationType.Q4_0
                writer.add_tensor("blk.0.attn_q.weight", quantize(weights, kind), raw_dtype=kind)
            writer.add_tensor("blk.0.half", weights.astype("f2"))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    return through_file("model.gguf", save)


def safetensors():
    from safetensors.numpy import save

    return save({"a": np.arange(6, dtype="f4").reshape(2, 3), "b": np.zeros(4, "i8")}, {"format": "np"})


def sharded(folder):
    from safetensors.numpy import save_file

    home = folder / "sharded"
    home.mkdir()
    names = [f"model-0000{index}-of-00002.safetensors" for index in (1, 2)]
    for index, name in enumerate(names):
        save_file({f"layer{index}": np.ones((2, 2), "f4")}, home / name)
    index = {"metadata": {"total_size": 32}, "weight_map": {f"layer{index}": name for index, name in enumerate(names)}}
    (home / "model.safetensors.index.json").write_text(json.dumps(index))
    return home


@cache
def booster():
    import xgboost

    return xgboost.train({"max_depth": 2, "objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(ROWS, SIDE), 3)


def binary_xgboost(prefix=b"binf", booster=b"gbtree"):
    """The binary layout of XGBoost 1.7, which no installed version writes: one tree with one split."""

    def text(content):
        return struct.pack("<Q", len(content)) + content

    learner = struct.pack("<fIiiiII108x", 0.5, 3, 0, 0, 0, 1, 7)
    head = prefix + learner + text(b"binary:logistic") + text(booster)
    if booster == b"gblinear":
        return head + struct.pack("<Ii128x", 3, 1) + struct.pack("<Q4f", 4, 1, 2, 3, 4)
    trees = struct.pack("<i4xi4xqii128x", 1, 3, 0, 1, 0)
    tree = struct.pack("<iiiIii124x", 1, 3, 0, 1, 3, 0)
    split = struct.pack("<iiiIf", -1, 1, 2, 0x80000001, 0.25)
    leaves = struct.pack("<iiiIf", -(2**31), -1, -1, 0, -1.0) + struct.pack("<iiiIf", 0, -1, -1, 0, 1.0)
    nodes = split + leaves
    return head + trees + tree + nodes + struct.pack("<fffi", 1, 2, 3, 0) * 3 + struct.pack("<i", 0)


def lightgbm():
    import lightgbm

    data = lightgbm.Dataset(ROWS, SIDE)
    return lightgbm.train({"objective": "binary", "num_leaves": 4, "verbose": -1}, data, 3).model_to_string().encode()


def catboost(name, form):
    def save(path):
        import catboost

        model = catboost.CatBoostClassifier(iterations=3, depth=2, verbose=0, allow_writing_files=False)
        model.fit(ROWS, SIDE).save_model(path, format=form)

    return through_file(name, save)


PMML = """<?xml version="1.0" encoding="UTF-8"?>
<PMML version="4.4" xmlns="http://www.dmg.org/PMML-4_4">
  <Header copyright="https://example.org" description="price"><Application name="by hand" version="1"/></Header>
  <DataDictionary numberOfFields="3">
    <DataField name="size" optype="continuous" dataType="double">
      <Interval closure="closedClosed" leftMargin="0"/></DataField>
    <DataField name="site" optype="categorical" dataType="string">
      <Value value="http://a"/><Value value="b"/></DataField>
    <DataField name="price" optype="continuous" dataType="double"/>
  </DataDictionary>
  <TransformationDictionary>
    <DefineFunction name="half" optype="continuous"><ParameterField name="x"/>
      <Apply function="/"><FieldRef field="x"/><Constant>2</Constant></Apply></DefineFunction>
    <DerivedField name="halved" optype="continuous" dataType="double">
      <Apply function="half"><FieldRef field="size"/></Apply></DerivedField>
  </TransformationDictionary>
  <RegressionModel functionName="regression" algorithmName="least squares">
    <MiningSchema><MiningField name="size"/><MiningField name="site"/>
      <MiningField name="price" usageType="target"/></MiningSchema>
    <Output><OutputField name="predicted" dataType="double" feature="predictedValue"/></Output>
    <RegressionTable intercept="1.5"><NumericPredictor name="halved" coefficient="2"/></RegressionTable>
  </RegressionModel>
</PMML>
"""
PFA_X = {"attr": "input", "path": [["x"]]}
PFA = {
    "name": "tree",
    "input": {"type": "record", "name": "Datum", "fields": [{"name": "x", "type": "double"}]},
    "output": "double",
    "cells": {"weights": {"type": {"type": "array", "items": "double"}, "init": [1.0, 2.5]}},
    "fcns": {"twice": {"params": [{"y": "double"}], "ret": "double", "do": {"*": ["y", 2]}}},
    "action": [
        {"let": {"first": {"attr": {"cell": "weights"}, "path": [0]}}},
        {"if": {">": [PFA_X, 0]}, "then": {"u.twice": ["first"]}, "else": {"m.exp": [PFA_X]}},
    ],
}

SAMPLES = {
    "gguf/llama": kept("model.gguf", gguf(tokens=1000)),
    "gguf/big-endian": kept("model.gguf", gguf(big=True)),
    "gguf/vocabulary only": kept("vocab.gguf", gguf(tokens=50, tensors=False)),
    "safetensors/single": kept("model.safetensors", safetensors),
    "safetensors/sharded": sharded,
    "xgboost/json": kept("model.json", lambda: bytes(booster().save_raw("json"))),
    "xgboost/ubj": kept("model.ubj", lambda: bytes(booster().save_raw("ubj"))),
    "xgboost/binary": kept("model.bin", binary_xgboost),
    "xgboost/binary without its mark": kept("model.model", lambda: binary_xgboost(b"")),
    "xgboost/binary, linear": kept("model.model", lambda: binary_xgboost(booster=b"gblinear")),
    "lightgbm/text": kept("model.txt", lightgbm),
    "catboost/cbm": kept("model.cbm", catboost("model.cbm", "cbm")),
    "catboost/json": kept("model.json", catboost("model.json", "json")),
    "pmml/regression": kept("model.pmml", PMML.encode),
    "pmml/catboost": kept("model.pmml", catboost("model.pmml", "pmml")),
    "pfa/rule": kept("model.pfa", lambda: json.dumps(PFA).encode()),
}
