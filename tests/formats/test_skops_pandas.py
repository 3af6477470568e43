"""Objects of pandas whose text Arrow keeps, in .skops files: kept by their values, or refused by name."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.preprocessing import FunctionTransformer

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats.skops import Skops
from vitrify.reading.files import HeldFiles

TEXT = pd.Series(["x", None, "ü"], dtype=pd.StringDtype("pyarrow", na_value=np.nan), name="é")


@pytest.mark.parametrize("value", [TEXT, pd.Index(TEXT), TEXT[1:]], ids=["a series", "an index", "a slice"])
def test_text_comes_back_equal(value, files_and_sink):
    place = files_and_sink()
    written = Skops().write(FunctionTransformer(kw_args={"a": value}), place.sink, None)
    assert written.names == ()
    made = Skops().read(place.files(), written.entry, Allow()).kw_args["a"]
    assert made.equals(value)
    assert (type(made), made.dtype, made.name) == (type(value), pd.Series(["a"]).dtype, "é")


@pytest.mark.parametrize(
    "value", [TEXT.to_frame(), TEXT.array, TEXT.astype("category")], ids=["frame", "array", "labels"]
)
def test_what_has_no_constructor_of_values_is_told_by_its_place(value, files_and_sink):
    with pytest.raises(UnsupportedModelError) as caught:
        Skops().write(FunctionTransformer(kw_args={"a": value}), files_and_sink().sink, None)
    assert all("kw_args" in problem.place for problem in caught.value.problems)


def test_an_array_without_its_memory_is_not_made_even_where_it_is_allowed():
    """So skops 0.16 writes one; whoever touched it would follow an address that is not there."""
    stream = io.BytesIO()
    skops.io.dump(FunctionTransformer(kw_args={"a": TEXT.array}), stream)
    files = HeldFiles({"m.skops": memoryview(stream.getvalue())})
    allowed = Allow.of([one.subject for one in Skops().hazards(files, {"file": "m.skops"})])
    with pytest.raises(MalformedError, match=r"a pyarrow\.lib\.LargeStringArray without its content"):
        Skops().read(files, {"file": "m.skops"}, allowed)
