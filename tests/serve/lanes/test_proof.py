"""Whether a model may be batched is found out by trying."""

from __future__ import annotations

import numpy as np
import pytest

from vitrify.core.errors import ModelError
from vitrify.core.signature import BATCH, Field, Signature
from vitrify.serve.lanes.proof import Proof, batch_proof

X = np.random.default_rng(0).normal(size=(10, 3))


def signature(dtype="float64", shape=(BATCH, 3), out="float64", out_shape=(BATCH, 3)):
    return Signature(
        inputs=(Field(name="x", dtype=dtype, shape=shape),), outputs=(Field(name="p", dtype=out, shape=out_shape),)
    )


def prove(run, x=X, rows=32, **more):
    seen = []

    def counted(inputs):
        seen.append(len(inputs["x"]))
        return {"p": run(inputs["x"])}

    return batch_proof(counted, {"x": x}, signature(**more), rows), seen


def test_a_model_of_single_rows_may_be_batched():
    proof, sizes = prove(np.exp)
    assert proof == Proof(32)
    assert sizes == [1] * 10 + [size for size in (2, 3, 4, 5, 8, 9, 16, 17, 31, 32) for _ in range(2)]


@pytest.mark.parametrize(("rows", "most"), [(1, 1), (2, 2), (3, 3), (7, 7), (33, 33)])
def test_any_number_of_rows_may_be_asked_for(rows, most):
    proof, sizes = prove(np.exp, rows=rows)
    assert proof == Proof(most)
    assert max(sizes) == most


def test_fewer_golden_rows_than_a_batch_are_taken_again():
    assert prove(np.exp, X[:1])[0] == Proof(32)


def test_a_model_that_looks_at_its_neighbours_is_not_batched_and_the_reason_names_the_place():
    proof, _ = prove(lambda x: x - x.mean(axis=0))
    assert proof.rows == 1
    assert proof.reason.startswith("output 'p' differs in row 0 of a batch of 2: ")
    assert " against 0.0" in proof.reason


@pytest.mark.parametrize(
    ("fails", "held"), [(2, 1), (3, 2), (4, 2), (5, 4), (8, 4), (9, 8), (16, 8), (31, 16), (32, 16)]
)
def test_the_largest_power_of_two_that_held_is_told(fails, held):
    proof, sizes = prove(lambda x: x + (len(x) >= fails) * 1e-9)
    assert proof.rows == held
    assert f"a batch of {fails}:" in proof.reason
    assert max(sizes) == fails


def test_one_bit_is_enough():
    proof, _ = prove(lambda x: np.where((np.arange(len(x)) == 20)[:, None], np.nextafter(x, 9), x))
    assert proof.rows == 16
    assert "row 20 of a batch of 31" in proof.reason


def test_minus_zero_is_not_zero_but_nan_is_nan():
    assert prove(lambda x: x * 0 if len(x) > 1 else abs(x) * 0)[0].rows == 1
    assert prove(lambda x: np.full_like(x, np.nan))[0] == Proof(32)


def test_only_shuffled_neighbours_show_some_faults():
    ordered = [x.tobytes() for x in X]

    def run(x):
        rows = [ordered.index(one.tobytes()) for one in x]
        return x + (rows != sorted(rows) and len(x) == 5)

    proof, _ = prove(run)
    assert (proof.rows, "a batch of 5" in proof.reason) == (4, True)


def test_an_error_in_a_batch_is_a_reason():
    def run(x):
        if len(x) > 4:
            raise ModelError("too many")
        return x

    assert prove(run)[0] == Proof(4, "a batch of 5 failed: too many")


def test_an_error_in_a_single_row_is_a_reason():
    def run(x):
        raise ZeroDivisionError("never")

    assert prove(run)[0] == Proof(1, "row 0 by itself failed: never")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda x: x[:1], "a batch of 2 failed: the model gave 1 rows in output 'p', expected 2"),
        (
            lambda x: x.astype("f4") if len(x) > 1 else x,
            "output 'p' differs in row 0 of a batch of 2: float32[1, 3] again",
        ),
        (lambda x: np.repeat(x, len(x), axis=1), "output 'p' differs in row 0 of a batch of 2: float64[1, 6] against"),
    ],
)
def test_another_form_is_a_reason(run, reason):
    assert prove(run)[0].reason.startswith(reason)


def test_without_a_batch_dimension_there_is_nothing_to_prove():
    proof, sizes = prove(np.exp, shape=(1, 3))
    assert (proof.rows, sizes) == (1, [])
    assert "['x'] have no batch dimension" in proof.reason
    assert prove(np.exp, out_shape=())[0].rows == 1


def test_without_samples_nothing_is_proven():
    assert prove(np.exp, X[:0])[0] == Proof(1, "there are no golden samples to prove it with")


@pytest.mark.parametrize(
    ("values", "other"),
    [
        (np.array(["a", None, float("nan"), ""], object), "b"),
        (np.ma.MaskedArray([1, 2, 3, 4], [False, True, False, True]), 9),
        (np.array([1, 2, "NaT", 3], "M8[s]"), np.datetime64(9, "s")),
        (np.array([True, True, True, True]), False),
        (np.array([b"a", b"\0", b"", b"c"], object), b"d"),
    ],
    ids=["text", "masked", "times", "bool", "bytes"],
)
def test_every_element_type_is_compared(values, other):
    def spoil(x):
        out = x.copy()
        if len(x) == 8:
            out[5] = other
        return out

    same, _ = prove(lambda x: x.copy(), values, shape=(BATCH,), out_shape=(BATCH,))
    assert same == Proof(32)
    spoilt, _ = prove(spoil, values, shape=(BATCH,), out_shape=(BATCH,))
    assert spoilt.rows == 4
    assert "row 5 of a batch of 8" in spoilt.reason


def test_missing_is_not_present():
    def run(x):
        return np.ma.MaskedArray(x, np.arange(len(x)) == 3)

    proof, _ = prove(run, np.arange(4), shape=(BATCH,), out_shape=(BATCH,))
    assert proof == Proof(2, "output 'p' differs in row 3 of a batch of 4: missing against 3")


class TestFilledUp:
    INPUTS = (
        Field(name="ids", dtype="int64", shape=(BATCH, "length")),
        Field(name="mask", dtype="int64", shape=(BATCH, "length")),
    )
    SAMPLES = {"ids": np.arange(1, 41).reshape(5, 8), "mask": np.ones((5, 8), np.int64)}

    def prove(self, run):
        outputs = (Field(name="p", dtype="int64", shape=(BATCH, "length")),)
        one = Signature(inputs=self.INPUTS, outputs=outputs, container="dict")
        lengths = set()

        def seen(inputs):
            lengths.add(inputs["ids"].shape[1])
            return {"p": run(**inputs)}

        return batch_proof(seen, self.SAMPLES, one, 8, pad={"ids": 0, "mask": 0}), lengths

    def test_a_model_that_heeds_the_mask_holds_and_different_lengths_were_tried(self):
        proof, lengths = self.prove(lambda ids, mask: ids * (ids * mask).sum(axis=1, keepdims=True))
        assert proof == Proof(8)
        assert lengths == {8, 7, 6, 5, 4}

    def test_a_model_that_does_not_is_found(self):
        proof, _ = self.prove(lambda ids, mask: ids * ids.shape[1])
        assert proof.rows == 1
        assert "output 'p' differs in row 1 of a batch of 2" in proof.reason
