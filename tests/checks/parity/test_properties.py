from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrify.checks.parity import Tolerance, compare_sessions
from vitrify.core.signature import Field, Signature
from vitrify.testing.checks import FunctionSession

_ROWS = 300
_FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=64)
_COLUMNS = {
    "float64": st.lists(_FLOATS, min_size=4, max_size=4).map(lambda v: np.array(v, np.float64)),
    "float32": st.lists(st.floats(width=32), min_size=4, max_size=4).map(lambda v: np.array(v, np.float32)),
    "int64": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4).map(lambda v: np.array(v, np.int64)),
    "uint8": st.lists(st.integers(0, 255), min_size=4, max_size=4).map(lambda v: np.array(v, np.uint8)),
    "bool": st.lists(st.booleans(), min_size=4, max_size=4).map(lambda v: np.array(v, np.bool_)),
    "string": st.lists(st.none() | st.text(max_size=5), min_size=4, max_size=4).map(lambda v: np.array(v, object)),
    "datetime64[s]": st.lists(st.integers(-(10**9), 10**9), min_size=4, max_size=4).map(
        lambda v: np.array(v, "datetime64[s]")
    ),
}


@st.composite
def tables(draw):
    dtypes = draw(st.lists(st.sampled_from(sorted(_COLUMNS)), min_size=1, max_size=4))
    fields = tuple(Field(name=f"c{i}", dtype=dtype, nullable=draw(st.booleans())) for i, dtype in enumerate(dtypes))
    return Signature(inputs=fields), {f.name: draw(_COLUMNS[f.dtype]) for f in fields}


def answer(arrays):
    """Give outputs of every kind that depend on every input, without rounding of their own."""
    total = np.zeros(len(next(iter(arrays.values()))))
    for array in arrays.values():
        if array.dtype.kind == "O":
            values = np.array([len(v) if isinstance(v, str) else -1.0 for v in array])
        else:
            values = np.ma.getdata(array).astype(np.float64 if array.dtype.kind != "M" else np.int64) * 0.5
            values = np.where(np.ma.getmaskarray(array), -3.0, values)
        total = np.where(np.isfinite(values), total + np.clip(values, -1e6, 1e6), total)
    label = np.array(["low", "high"], object)[(total > 0).astype(int)]
    return {"label": label, "score": total, "narrow": total.astype(np.float32), "flag": total > 1}


@settings(max_examples=15)
@given(tables())
def test_a_session_is_always_the_same_as_itself(table):
    signature, samples = table
    session = FunctionSession(signature, answer)
    report = compare_sessions(session, session, samples, row_count=_ROWS)
    assert report.verdict == "clean", str(report)
    assert report.details["rows"]["compared"] >= len(samples["c0"])


@settings(max_examples=15)
@given(tables())
def test_the_same_seed_gives_the_same_report(table):
    signature, samples = table
    session = FunctionSession(signature, answer)
    assert compare_sessions(session, session, samples, row_count=50, seed=3) == compare_sessions(
        session, session, samples, row_count=50, seed=3
    )


@settings(max_examples=15)
@given(
    table=tables(),
    output=st.sampled_from(["score", "narrow"]),
    times=st.floats(3.0, 1e6),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_a_number_beyond_its_tolerance_is_always_found(table, output, times, sign):
    signature, samples = table
    rtol, atol = 1e-4, 1e-2

    def wrong(arrays):
        outputs = answer(arrays)
        values = outputs[output]
        off = np.abs(values.astype(np.float64)) * (rtol * times * sign) + atol * times * sign
        return {**outputs, output: (values + off).astype(values.dtype)}

    report = compare_sessions(
        FunctionSession(signature, wrong),
        FunctionSession(signature, answer),
        samples,
        Tolerance(rtol=rtol, atol=atol),
        row_count=_ROWS,
    )
    assert report.verdict == "found"
    assert report.details["outputs"][output]["failed"] > 0


@settings(max_examples=15)
@given(table=tables(), share=st.sampled_from([0.2, 0.9]))
def test_a_number_within_its_tolerance_is_never_found(table, share):
    signature, samples = table

    def close(arrays):
        outputs = answer(arrays)
        return {**outputs, "score": outputs["score"] * (1 + 1e-3 * share)}

    report = compare_sessions(
        FunctionSession(signature, close),
        FunctionSession(signature, answer),
        samples,
        Tolerance(rtol=1e-3, atol=1e-6),
        row_count=_ROWS,
    )
    assert report.verdict == "clean", str(report)


@settings(max_examples=15)
@given(table=tables(), output=st.sampled_from(["label", "flag"]))
def test_one_flipped_label_a_probe_is_always_found(table, output):
    signature, samples = table

    def wrong(arrays):
        outputs = answer(arrays)
        values = outputs[output].copy()
        if len(values) and abs(outputs["score"][0]) > 2:
            values[0] = "low" if values[0] == "high" else "high" if output == "label" else not values[0]
        return {**outputs, output: values}

    expected = answer(samples)
    if abs(expected["score"][0]) <= 2:
        return
    report = compare_sessions(
        FunctionSession(signature, wrong), FunctionSession(signature, answer), samples, row_count=50
    )
    assert report.verdict == "found"
