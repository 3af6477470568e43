"""The words that all formats share."""

from __future__ import annotations

import pytest

from vitrify.formats import _facts


@pytest.mark.parametrize(
    ("word", "name"),
    [
        *((word, "float32") for word in ("FP32", "F32", "f32", "FLOAT", "FLOAT32", "float", "float32")),
        *((word, "float16") for word in ("FP16", "F16", "half")),
        *((word, "bfloat16") for word in ("BF16", "bf16", "BFLOAT16")),
        *((word, "bool") for word in ("BOOL", "boolean", "i1", "bool")),
        *((word, "int64") for word in ("INT64", "I64", "si64", "int64")),
        ("ui8", "uint8"),
        ("double", "float64"),
        ("Q4_0", "Q4_0"),
        ("<U5", "<U5"),
        ("", ""),
    ],
)
def test_an_element_type_has_one_name_whichever_format_it_stands_in(word, name):
    assert _facts.element(word) == name
    assert _facts.port("x", word, [1])["type"] == name
    assert _facts.tensor("x", word, [1], 4)["type"] == name


def test_a_table_is_its_columns_or_one_matrix_or_nothing():
    assert [one["name"] for one in _facts.columns(["a", "b"], 2)] == ["a", "b"]
    assert _facts.columns(None, 3) == [{"name": "X", "type": "", "shape": [None, 3]}]
    assert _facts.columns(None, "three") == []
