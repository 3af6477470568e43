"""The session: what every runtime gets for free."""

import numpy as np
import pytest

from vitrify.core.errors import ModelError, SignatureError, UsageError
from vitrify.core.protocols import Session
from vitrify.core.signature import Field, Signature
from vitrify.runtimes.session import BaseSession

A, B = Field(name="a", dtype="int64"), Field(name="b", dtype="float64")
TOTAL = Field(name="total", dtype="float64")
OUTPUTS = (
    TOTAL,
    Field(name="label", dtype="string"),
    Field(name="table", dtype="bfloat16", shape=("batch", 3, "length")),
)


class Adder(BaseSession):
    """Adds its inputs, and remembers what it was given."""

    def __init__(self, *outputs, answer=None, container="pandas"):
        super().__init__(Signature(inputs=(A, B), outputs=outputs, container=container))
        self.calls, self.answer, self.closed = [], answer, False

    def _run(self, inputs):
        self.calls.append(inputs)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or {"total": inputs["a"] + inputs["b"]}

    def close(self):
        self.closed = True


def test_inputs_reach_the_model_in_order_and_in_their_types():
    session = Adder(TOTAL)
    result = session.run({"b": np.array([0.5, 1]), "a": np.array([1, 2], np.int32), "more": np.array([9, 9])})
    assert result["total"].tolist() == [1.5, 3.0]
    assert list(session.calls[0]) == ["a", "b"]
    assert session.calls[0]["a"].dtype == np.int64


@pytest.mark.parametrize(
    "data", [{"b": [0.5], "a": [1]}, [{"a": 1, "b": 0.5}], np.array([[1, 0.5]])], ids=["dict", "records", "matrix"]
)
def test_any_container_can_be_predicted_from(data):
    assert Adder(TOTAL).predict(data)["total"].tolist() == [1.5]


def test_data_that_does_not_fit_never_reaches_the_model():
    session = Adder(TOTAL)
    with pytest.raises(SignatureError, match="does not fit"):
        session.run({"a": np.array([0.5]), "b": np.array([1.0])})
    assert session.calls == []


def test_no_rows_give_no_rows_in_the_shape_and_type_of_every_output_without_asking_the_model():
    session = Adder(*OUTPUTS)
    result = session.run({"a": np.array([], np.int64), "b": np.array([])})
    assert session.calls == []
    assert {name: (array.dtype, array.shape) for name, array in result.items()} == {
        "total": (np.float64, (0,)),
        "label": (np.dtype(object), (0,)),
        "table": (np.float32, (0, 3, 0)),
    }


def test_a_model_whose_outputs_are_not_known_answers_for_itself():
    session = Adder(answer={"anything": np.zeros(3)})
    assert list(session.run({"a": np.array([1]), "b": np.array([1.0])})) == ["anything"]
    session.run({"a": np.array([], np.int64), "b": np.array([])})
    assert len(session.calls) == 2


def test_outputs_come_in_the_signatures_order_and_no_others():
    answer = {"extra": np.zeros(1), "label": np.array(["x"], object), "total": np.ones(1)}
    assert list(Adder(TOTAL, OUTPUTS[1], answer=answer).run({"a": np.array([1]), "b": np.ones(1)})) == [
        "total",
        "label",
    ]


def test_an_output_that_is_not_given_is_an_error_that_names_it():
    with pytest.raises(ModelError, match=r"no output \['total'\] \(it gave: \['other'\]\)"):
        Adder(TOTAL, answer={"other": np.ones(1)}).run({"a": np.array([1]), "b": np.ones(1)})


def test_what_the_model_raises_is_wrapped_once_with_its_cause():
    cause = ZeroDivisionError("by zero")
    with pytest.raises(ModelError, match="the model raised ZeroDivisionError: by zero") as caught:
        Adder(TOTAL, answer=cause).run({"a": np.array([1]), "b": np.ones(1)})
    assert caught.value.__cause__ is cause


def test_our_own_errors_pass_through_as_they_are():
    with pytest.raises(UsageError, match="own"):
        Adder(TOTAL, answer=UsageError("own")).run({"a": np.array([1]), "b": np.ones(1)})


def test_a_model_that_was_never_fitted_gets_the_remedy():
    class NotFittedError(ValueError):
        pass

    with pytest.raises(ModelError) as caught:
        Adder(TOTAL, answer=NotFittedError("call fit")).run({"a": np.array([1]), "b": np.ones(1)})
    assert "fit" in caught.value.remedy


def test_a_session_is_closed_when_its_block_ends_even_by_an_error():
    session = Adder(TOTAL)
    assert isinstance(session, Session)
    with session as same:
        assert same is session
    assert session.closed
    session.closed = False
    with pytest.raises(ZeroDivisionError), session:
        _ = 1 / 0
    assert session.closed
