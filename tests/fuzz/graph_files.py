"""Readers of graphs that are no Protocol Buffers: TFLite, ORT, StableHLO, jax.export, OpenVINO, compiled ones."""

from __future__ import annotations

import functools

from fuzz import _formats
from fuzz._run import Case

FORMATS = ("tflite", "ort", "stablehlo", "jax-export", "openvino", "tensorrt", "dlc", "executorch", "native-library")
WORDS = (
    b"<",
    b">",
    b"{",
    b"}",
    b"(",
    b"%0",
    b'"',
    b"stablehlo.custom_call",
    b"@f",
    b"-1",
    b"99999999999999999999",
    b"=",
)


@functools.cache
def seeds(*, quick=False):
    from samples import graph_files

    return [*_formats.samples(*FORMATS, quick=quick), Case("tflite", {"f": graph_files.with_files()})]


change = functools.partial(_formats.change, words=WORDS)
check = _formats.check
