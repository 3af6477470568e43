from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from vitrify import containers
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import ModelError, UsageError
from vitrify.core.protocols import Streams
from vitrify.runtimes.callable import CallableRuntime

RUNTIME = CallableRuntime()
X = np.arange(6.0).reshape(3, 2)


def session(model, native, **fields):
    example = containers.example(native)
    entry = RUNTIME.entry(model, example)
    assert all(key.startswith("call_") for key in entry)
    document = Document(schema=SCHEMA, format="python", runtime="python", entry=entry, signature=example.signature)
    return RUNTIME.wrap(model, document)


def predict(model, native):
    return session(model, native).predict(native)


def total(table):
    return np.asarray(table).sum(axis=1)


def difference(left, right, /):
    return left - right


def ratio(*, price, size):
    return price / size


def area(width, height):
    return width * height


def of_dict(inputs):
    return inputs["a"] + inputs["b"]


class Scaler:
    def __init__(self, factor=2.0):
        self.factor = factor

    def __call__(self, table):
        return table * self.factor


class Predictor:
    def predict(self, parts):
        return parts["a"] * 10


class NeedsAFile:
    def __init__(self, path):
        self.path = path


@pytest.mark.parametrize("native", [X, pd.DataFrame(X, columns=["a", "b"])])
def test_an_array_or_a_frame_is_the_one_argument(native):
    np.testing.assert_array_equal(predict(total, native)["output"], [1.0, 5.0, 9.0])


def test_a_frame_arrives_as_the_frame_of_the_example():
    frame = pd.DataFrame({"a": [1, 2], "text": ["x", None]})
    seen = []
    predict(lambda table: seen.append(table) or np.zeros(len(table)), frame)
    pd.testing.assert_frame_equal(seen[0], frame)


def test_a_tuple_is_given_as_positional_arguments():
    np.testing.assert_array_equal(predict(difference, (X, np.ones_like(X)))["output"], X - 1)


def test_a_dict_is_given_as_keywords_or_whole_to_a_callable_of_one_argument():
    one, two = np.array([6.0, 8.0]), np.array([2.0, 4.0])
    np.testing.assert_array_equal(predict(ratio, {"price": one, "size": two})["output"], [3.0, 2.0])
    np.testing.assert_array_equal(predict(area, {"width": one, "height": two})["output"], [12.0, 32.0])
    np.testing.assert_array_equal(predict(of_dict, {"a": one, "b": two})["output"], [8.0, 12.0])
    np.testing.assert_array_equal(predict(Predictor, {"a": one})["output"], [60.0, 80.0])
    np.testing.assert_array_equal(predict(Predictor(), {"a": one})["output"], [60.0, 80.0])


def test_a_class_is_made_once_without_arguments_when_the_session_opens():
    made = []

    class Counted(Scaler):
        def __init__(self):
            super().__init__(3.0)
            made.append(self)

    opened = session(Counted, X)
    for _ in range(2):
        np.testing.assert_array_equal(opened.predict(X)["output"], X * 3)
    assert len(made) == 1


def test_a_class_that_cannot_be_made_without_arguments_is_an_error_of_the_model():
    with pytest.raises(ModelError, match=r"NeedsAFile\(\) raised TypeError"):
        session(NeedsAFile, X)


def test_an_object_that_neither_is_called_nor_predicts_is_an_error_of_the_model():
    with pytest.raises(ModelError, match="neither __call__ nor predict"):
        session(object(), X)


@pytest.mark.parametrize(
    ("result", "names"),
    [
        (lambda x: x[:, 0], ["output"]),
        (lambda x: x[:, 0].tolist(), ["output"]),
        (lambda x: torch.tensor(x, requires_grad=True)[:, 0], ["output"]),
        (lambda x: {"first": x[:, 0], 2: x[:, 1]}, ["first", "2"]),
        (lambda x: (x[:, 0], x), ["output_0", "output_1"]),
        (lambda x: [x[:, 0], x], ["output_0", "output_1"]),
        (lambda x: pd.DataFrame(x, columns=["a", 7]), ["a", "7"]),
        (lambda x: pd.Series(x[:, 0]), ["output"]),
    ],
)
def test_whatever_it_gives_becomes_named_arrays(result, names):
    outputs = predict(result, X)
    assert list(outputs) == names
    assert all(isinstance(array, np.ndarray) for array in outputs.values())
    np.testing.assert_array_equal(outputs[names[0]], X[:, 0])


def test_text_becomes_an_array_of_objects():
    outputs = predict(lambda x: np.where(x[:, 0] > 1, "hoch", "tief"), X)
    assert outputs["output"].dtype == object
    assert outputs["output"].tolist() == ["tief", "hoch", "hoch"]


def test_masked_outputs_stay_masked():
    outputs = predict(lambda x: np.ma.masked_equal(x[:, 0].astype(int), 2), X)
    assert np.ma.getmaskarray(outputs["output"]).tolist() == [False, True, False]


def test_outputs_are_described_with_the_batch_only_where_the_inputs_have_one():
    batched, fixed = containers.example(X), containers.example((np.float64(1.0), np.float64(2.0)))
    outputs = {"output": np.zeros((3, 2)), "loss": np.float64(1).reshape(())}
    fields = RUNTIME.describe_outputs(total, outputs, RUNTIME.entry(total, batched))
    assert [field.shape for field in fields] == [("batch", 2), ()]
    fields = RUNTIME.describe_outputs(difference, outputs, RUNTIME.entry(difference, fixed))
    assert [field.shape for field in fields] == [(3, 2), ()]


def test_what_the_callable_raises_is_an_error_of_the_model():
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        predict(lambda x: 1 / 0, X)


def test_without_a_signature_it_cannot_be_opened():
    with pytest.raises(UsageError, match="signature"):
        RUNTIME.wrap(total, Document(schema=SCHEMA, format="python", runtime="python"))


def counted(table):
    for factor in range(3):
        yield {"first": table[:, 0] * factor, "all": table * factor}


class Counter:
    def __call__(self, table):
        yield from counted(table)


@pytest.mark.parametrize("model", [counted, Counter, Counter()], ids=["function", "class", "object"])
def test_a_generator_function_gives_parts_and_its_last_part_as_its_answer(model):
    asked = session(model, X)
    assert isinstance(asked, Streams)
    name = asked.signature.inputs[0].name
    parts = list(asked.stream({name: X}))
    assert [list(part) for part in parts] == [["first", "all"]] * 3
    np.testing.assert_array_equal(parts[1]["first"], X[:, 0])
    np.testing.assert_array_equal(asked.run({name: X})["all"], X * 2)
    assert not isinstance(session(total, X), Streams)


def test_a_generator_is_closed_by_whoever_leaves_and_its_errors_are_the_model_s():
    left = []

    def failing(table):
        try:
            yield table
            raise ZeroDivisionError("no more")
        finally:
            left.append(True)

    asked = session(failing, X)
    name = asked.signature.inputs[0].name
    parts = asked.stream({name: X})
    next(parts)
    parts.close()
    assert left == [True]
    with pytest.raises(ModelError, match="ZeroDivisionError: no more"):
        list(asked.stream({name: X}))
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        asked.run({name: X})
    with pytest.raises(ModelError, match="no part"):
        session(lambda table: (yield from ()), X).run({name: X})
