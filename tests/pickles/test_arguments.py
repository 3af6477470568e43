"""Trusted functions, called with what their picklers would not call them with."""

from __future__ import annotations

import pytest

from vitrify.core.errors import MalformedError
from vitrify.core.protocols import Allow
from vitrify.pickles.machine import audit, load

MISUSED = {
    "a number as the size of bytes": b"cbuiltins\nbytearray\n(L999999999999L\ntR.",
    "a set of a range": b"cbuiltins\nset\n(cbuiltins\nrange\n(I9\ntRtR.",
    "a list of a range": b"cbuiltins\nlist\n(cbuiltins\nrange\n(I9\ntRtR.",
    "a queue of a range": b"ccollections\ndeque\n(cbuiltins\nrange\n(I9\ntRtR.",
    "a range without an end to speak of": b"cbuiltins\nrange\n(L999999999999L\ntR.",
    "a range without a step": b"cbuiltins\nrange\n(I1\nI2\nI0\ntR.",
    "a class made by type": b"cbuiltins\ntype\n(U\x01a)}tR.",
    "another codec": b"c_codecs\nencode\n(U\x01aU\x03bz2tR.",
    "a codec that is deep": b"c_codecs\nencode\n(U\x01a)" + b"\x85" * 50_000 + b"tR.",
    "an array of its own shape": b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(L9999999L\ntU\x01btR.",
    "an array of objects": b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntU\x01OtR.",
    "NumPy's own type": b"cnumpy\ndtype\n(U\x02f8I00\nI00\ntR.",
    "a type made of a tree": b"cnumpy\ndtype\n(](U\x01aU\x02f8tatR.",
    "a generator of another name": b"cnumpy.random._pickle\n__bit_generator_ctor\n(U\x06systemtR.",
    "a generator that calls": b"cnumpy.random._pickle\n__generator_ctor\n(U\x07MT19937cbuiltins\nlen\ntR.",
    "an index of another class": b"cpandas.core.indexes.base\n_new_Index\n(cnumpy\nndarray\n}tR.",
    "an instance of another class": b"csklearn.neighbors._kd_tree\nnewObj\n(cnumpy\nndarray\ntR.",
    "a partial of what was made": b"cfunctools\npartial\n(coperator\nitemgetter\n(I1\ntRtR.",
    "a partial that becomes another": b"cfunctools\npartial\n(cbuiltins\nlen\ntR((coperator\nitemgetter\n(I1\ntR)}Ntb.",
    "a getter of an object": b"coperator\nitemgetter\n(]tR.",
    "a pattern longer than any": b"cre\n_compile\n(V" + b"a" * 5000 + b"\nI0\ntR.",
    "a fraction with an exponent": b"cfractions\nFraction\n(U\x091e9999999tR.",
    "a base that is no base": b"ccopyreg\n_reconstructor\n(cuuid\nUUID\ncbuiltins\nlen\nNtR.",
    "an array of as many as it is told": b"carray\narray\n(U\x01dL99999999L\ntR.",
    "an array of a range": b"carray\narray\n(U\x01dcbuiltins\nrange\n(I9\ntRtR.",
    "an array of another class": b"carray\n_array_reconstructor\n(cbuiltins\nlist\nU\x01dI16\nU\x00tR.",
    "an enumeration that is made": b"chttp\nHTTPStatus\n(U\x01a](U\x01bU\x01cetR.",
    "a member by what is no value": b"cre\nRegexFlag\n(]tR.",
    "a number missing with a value": b"cnumpy.ma.core\nMaskedConstant\n(I1\ntR.",
    "a function for each item that was made": (
        b"cnumpy\nvectorize\n)\x81}(U\x06pyfunccoperator\nitemgetter\n(I1\ntRub."
    ),
    "a function for each item with one behind it": (
        b"cnumpy\nvectorize\n)\x81}(U\x06pyfunccmath\nsqrt\nU\x06_ufunc}U\x01acmath\nsqrt\nsub."
    ),
    "a zone that is no text": b"czoneinfo\nZoneInfo\n(]tR.",
}


@pytest.mark.parametrize("content", MISUSED.values(), ids=MISUSED)
def test_a_trusted_name_with_arguments_that_no_pickler_writes_is_found(content):
    content = b"\x80\x03" + content
    rules = [one.rule for one in audit(memoryview(content), where="x").findings]
    assert "unsafe-arguments" in rules or "malformed-pickle" in rules or "limit" in rules
    with pytest.raises(MalformedError):
        load(memoryview(content), where="x", allow=Allow.of(["copyreg._reconstructor", "zoneinfo.ZoneInfo"]))
