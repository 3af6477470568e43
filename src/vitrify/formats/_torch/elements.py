"""What PyTorch calls its element types, in files of every age.

Source: ``torch/storage.py`` (``_dtype_to_storage_type_map``), ``torch/csrc/api/include/torch/types.h``.
"""

from __future__ import annotations

from types import MappingProxyType

SIZES = MappingProxyType(
    {
        **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8", "quint4x2", "quint2x4"), 1),
        **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
        **dict.fromkeys(("bits8", "bits1x8", "bits2x4", "bits4x2", "float4_e2m1fn_x2"), 1),
        **dict.fromkeys(("int16", "uint16", "float16", "bfloat16", "bits16"), 2),
        **dict.fromkeys(("int32", "uint32", "float32", "qint32", "complex32"), 4),
        **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
        "complex128": 16,
    }
)
"""Bytes of one element, by the type's name in the ``torch`` module."""

_STORAGES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "QInt8": "qint8",
    "QUInt8": "quint8",
    "QInt32": "qint32",
    "QUInt4x2": "quint4x2",
    "QUInt2x4": "quint2x4",
    "Untyped": "uint8",
}

STORAGES = MappingProxyType(
    {
        **{f"{home}.{name}Storage": kind for home in ("torch", "torch.cuda") for name, kind in _STORAGES.items()},
        "torch.storage.UntypedStorage": "uint8",
    }
)
"""The element type of each class of storage, by its dotted name."""

OLD_TENSORS = frozenset(
    f"{home}.{name}Tensor" for home in ("torch", "torch.cuda") for name in _STORAGES if not name.startswith("Q")
)
"""Classes of tensors by their element type, in the oldest files."""

DTYPES = frozenset(f"torch.{name}" for name in (*SIZES, "float", "double", "half", "long", "int", "short"))
"""Element types as values, by their dotted names."""
