"""TensorFlow Serving over gRPC, asked with messages of ours; ``test_grpc_tensorflow_client`` has TensorFlow's own."""

from __future__ import annotations

import asyncio
import math
import struct

import numpy as np
import pytest
from grpc_rig import LocalEngine, echo, status_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vitrify.core.errors import (
    DeniedError,
    LimitExceededError,
    MalformedError,
    NotOfferedError,
    ReferenceNotFoundError,
    SignatureError,
)
from vitrify.core.signature import Field
from vitrify.serve.protocols import tensorflow_grpc
from vitrify.serve.protocols._messages import messages
from vitrify.serve.protocols._tensorflow_grpc_tensors import array_of, write
from vitrify.serve.rpc import RpcCall

TF, SAID = messages("tensorflow"), messages("tensorflow_serving")
TYPES = TF.DataType
AGE = Field(name="age", dtype="float64")
CITY = Field(name="city", dtype="string", nullable=True)
COUNT = Field(name="count", dtype="int64", nullable=True)
VECTOR = Field(name="vector", dtype="float32", shape=("batch", 2))
SCORES = Field(name="scores", dtype="float32", shape=("batch", 2), classes=("no", "yes"))
PRICE = Field(name="price", dtype="float64")


def answered(x):
    age = np.asarray(x["age"], np.float64)
    with np.errstate(all="ignore"):
        return {"scores": np.stack([age, 1 - age], 1).astype(np.float32), "price": age * 2}


@pytest.fixture
def engine():
    made = LocalEngine()
    echo(made)
    for version, number in (("1.0", 1), ("7", 7)):
        made.add("table", (AGE, CITY, COUNT), (SCORES, PRICE), answered, version=version, number=number)
    made.add("vector", (VECTOR,), (VECTOR,), dict)
    made.add("text", (CITY,), (CITY,), dict)
    made.add("gone", (AGE,), (PRICE,), answered, state="UNAVAILABLE")
    return made


@pytest.fixture
def ask(engine):
    methods = tensorflow_grpc.methods(
        engine, is_admin=lambda client: client == "admin", labels=lambda model: {"stable": "1.0"}
    )
    by_name = {method.path.rpartition("/")[2]: method for method in methods}

    def asked(name, request, client=""):
        data = request if isinstance(request, bytes) else request.SerializeToString()
        kind = type(request).__name__ if not isinstance(request, bytes) else "PredictRequest"
        said = asyncio.run(by_name[name].unary(RpcCall("/", data, client=client)))
        return getattr(SAID, kind.replace("Request", "Response")).FromString(said)

    return asked


def tensor(dtype, shape=None, **lists):
    made = TF.TensorProto(dtype=TYPES.Value(dtype))
    for size in shape if shape is not None else [max(map(len, lists.values()), default=0)]:
        made.tensor_shape.dim.add(size=size)
    for name, values in lists.items():
        if name == "tensor_content":
            made.tensor_content = values
        else:
            getattr(made, name).extend(values)
    return made


def predict(model="table", spec=None, filtered=(), **inputs):
    made = SAID.PredictRequest(output_filter=filtered)
    made.model_spec.name = model
    if spec is not None:
        made.model_spec.MergeFrom(spec)
    for name, one in inputs.items():
        made.inputs[name].CopyFrom(one)
    return made


TABLE = {
    "age": tensor("DT_DOUBLE", double_val=[0.25, 0.5]),
    "city": tensor("DT_STRING", string_val=[b"Bern", b""]),
    "count": tensor("DT_INT64", int64_val=[2**53 + 1, 0]),
}


def found(tensor_):
    return array_of(tensor_, TYPES, "t")


def test_predict_answers_tensors_with_tensors(engine, ask):
    said = ask("Predict", predict(**TABLE))
    assert found(said.outputs["price"]).tolist() == [0.5, 1.0]
    assert found(said.outputs["scores"]).tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert list(said.outputs["scores"].float_val) == [0.25, 0.75, 0.5, 0.5]
    assert (said.model_spec.name, said.model_spec.version.value) == ("table", 7)
    assert said.model_spec.signature_name == "serving_default"
    assert engine.asked[-1].inputs["count"].tolist() == [2**53 + 1, 0]
    assert engine.asked[-1].version == ""


def test_only_the_outputs_of_the_filter_are_answered(ask):
    assert list(ask("Predict", predict(filtered=["price"], **TABLE)).outputs) == ["price"]
    with pytest.raises(SignatureError, match="nope"):
        ask("Predict", predict(filtered=["nope"], **TABLE))
    with pytest.raises(SignatureError, match="output_filter"):
        ask("Predict", predict(filtered=["price", "price"], **TABLE))


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        ({"version": {"value": 1}}, "1.0"),
        ({"version": {"value": 7}}, "7"),
        ({"version_label": "stable"}, "1.0"),
        ({"signature_name": "serving_default"}, ""),
    ],
)
def test_a_version_is_a_number_or_a_label(engine, ask, spec, version):
    said = ask("Predict", predict(spec=SAID.ModelSpec(**spec), **TABLE))
    assert engine.asked[-1].version == version
    assert said.model_spec.version.value == (1 if version == "1.0" else 7)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"version": {"value": 2}}, "no version 2"),
        ({"version_label": "canary"}, "no label 'canary'.*stable"),
        ({"signature_name": "other"}, "signature_name: found 'other', expected serving_default"),
    ],
)
def test_what_there_is_not_is_not_found(ask, spec, said):
    with pytest.raises(ReferenceNotFoundError, match=said):
        ask("Predict", predict(spec=SAID.ModelSpec(**spec), **TABLE))


def test_a_request_names_a_model(ask):
    with pytest.raises(MalformedError, match=r"model_spec\.name"):
        ask("Predict", SAID.PredictRequest())
    with pytest.raises(ReferenceNotFoundError, match="nope"):
        ask("Predict", predict("nope"))


NUMBERS = {
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    **{f"DT_{sign.upper()}INT{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "DT_BOOL": "bool",
    "DT_HALF": "float16",
    "DT_COMPLEX64": "complex64",
    "DT_COMPLEX128": "complex128",
}


@pytest.mark.parametrize("dtype", NUMBERS)
@settings(max_examples=15)
@given(data=st.data())
def test_every_number_comes_back_in_lists_and_raw(dtype, data):
    shape = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    array = data.draw(arrays.arrays(NUMBERS[dtype], shape))
    listed = TF.TensorProto()
    write(listed, array, None, TYPES)
    assert TYPES.Name(listed.dtype) == dtype
    raw = tensor(dtype, array.shape, tensor_content=array.tobytes())
    for one in (listed, raw):
        back = found(one)
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert back.tobytes() == array.tobytes() or np.array_equal(back, array, equal_nan=array.dtype.kind in "fc")


def test_bfloat16_is_float32_inside():
    bits = [0x3F80, 0x7FC0, 0xFF80, 0x0001]
    raw = tensor("DT_BFLOAT16", [4], tensor_content=struct.pack("<4H", *bits))
    for one in (tensor("DT_BFLOAT16", half_val=bits), raw):
        array = found(one)
        assert array.dtype == np.float32
        assert array[0] == 1
        assert math.isnan(array[1])
    engine = LocalEngine()
    echo(engine)
    written = TF.TensorProto()
    write(written, array, engine.served("echo_bfloat16").outputs[0], TYPES)
    assert list(written.half_val) == bits


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (tensor("DT_FLOAT", [2, 2], float_val=[0.5]), [[0.5, 0.5], [0.5, 0.5]]),
        (tensor("DT_STRING", [3], string_val=[b"a", b"b"]), [b"a", b"b", b"b"]),
        (tensor("DT_BOOL", [], bool_val=[True]), True),
        (tensor("DT_INT8", [0, 3]), []),
        (tensor("DT_BOOL", [2], tensor_content=b"\x00\x02"), [False, True]),
    ],
)
def test_the_last_value_stands_for_the_rest(one, expected):
    assert found(one).tolist() == expected


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (tensor("DT_FLOAT", [2]), r"t\.float_val: 0 values, expected 1 to 2"),
        (tensor("DT_FLOAT", [2], float_val=[1, 2, 3]), "3 values, expected 1 to 2"),
        (tensor("DT_FLOAT", int_val=[1]), r"t: found int_val, expected one of float_val or tensor_content"),
        (tensor("DT_FLOAT", [1], float_val=[1], tensor_content=b"abcd"), "found tensor_content and float_val"),
        (tensor("DT_STRING", [1], tensor_content=b"\x01a"), r"expected one of string_val"),
        (tensor("DT_DOUBLE", [2], tensor_content=bytes(15)), r"tensor_content: 15 bytes, expected 16"),
        (tensor("DT_INT8", int_val=[1, 200]), r"int_val\[1\]: found 200, expected -128 to 127"),
        (tensor("DT_HALF", half_val=[70000]), r"half_val\[0\]: found 70000, expected 0 to 65535"),
        (tensor("DT_COMPLEX64", [1], scomplex_val=[1.0]), "1 values"),
        (tensor("DT_INVALID", int_val=[1]), r"t\.dtype: found 0|found DT_INVALID"),
        (tensor("DT_FLOAT", [-1], float_val=[1]), r"tensor_shape: found \[-1\]"),
        (tensor("DT_FLOAT", [2**62, 2**62], float_val=[1]), "that a request can have"),
        (tensor("DT_FLOAT", [1] * 33, float_val=[1]), "33 dimensions"),
        (TF.TensorProto(dtype=1, tensor_shape={"unknown_rank": True}), "rank is unknown"),
    ],
)
def test_a_tensor_that_does_not_agree_with_itself(one, said):
    with pytest.raises(SignatureError, match=said):
        found(one)


def test_one_value_does_not_become_gigabytes():
    with pytest.raises(LimitExceededError, match="more than the last may stand for"):
        found(tensor("DT_DOUBLE", [2**30], double_val=[1.0]))


def test_a_dtype_that_nobody_knows():
    one = TF.TensorProto(dtype=21)
    with pytest.raises(SignatureError, match="dtype: found 21"):
        found(one)


@given(data=st.data())
def test_no_mutation_of_a_request_is_a_fault_of_ours(data):
    engine = LocalEngine()
    engine.add("table", (AGE, CITY, COUNT), (SCORES, PRICE), answered)
    methods = tensorflow_grpc.methods(engine, is_admin=lambda client: True, labels=lambda model: {})
    whole = bytearray(predict(**TABLE).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    answer = next(one for one in methods if one.path.endswith("/Predict")).unary
    assert status_of(lambda: asyncio.run(answer(RpcCall("/", bytes(whole))))) in {200, 400, 404, 413}


def example(**features):
    made = TF.Example()
    for name, values in features.items():
        feature = made.features.feature[name]
        match values:
            case [bytes(), *_]:
                feature.bytes_list.value.extend(values)
            case [int(), *_]:
                feature.int64_list.value.extend(values)
            case [float(), *_]:
                feature.float_list.value.extend(values)
            case _:
                feature.float_list.SetInParent()
    return made


def classification(*examples, context=None, model="table", kind=SAID.ClassificationRequest):
    made = kind()
    made.model_spec.name = model
    listed = made.input.example_list if context is None else made.input.example_list_with_context
    listed.examples.extend(examples)
    if context is not None:
        listed.context.CopyFrom(context)
    return made


FULL = example(age=[0.25], city=[b"Bern"], count=[2**53 + 1], other=[1])


def test_classify_gives_label_and_score_of_each_class(engine, ask):
    said = ask("Classify", classification(FULL, example(age=[1.0], city=[b"Genf"])))
    rows = [[(one.label, one.score) for one in row.classes] for row in said.result.classifications]
    assert rows == [[("no", 0.25), ("yes", 0.75)], [("no", 1.0), ("yes", 0.0)]]
    assert said.model_spec.version.value == 7
    asked = engine.asked[-1]
    assert asked.outputs == ("scores",)
    assert asked.inputs["city"].tolist() == ["Bern", "Genf"]
    assert asked.inputs["count"].tolist() == [2**53 + 1, None]


def test_regress_gives_one_number_each(engine, ask):
    context = example(city=[b"Bern"], count=[3])
    given_ = classification(example(age=[0.5]), example(age=[2.0]), context=context, kind=SAID.RegressionRequest)
    said = ask("Regress", given_)
    assert [one.value for one in said.result.regressions] == [1.0, 4.0]
    assert engine.asked[-1].inputs["city"].tolist() == ["Bern", "Bern"]


def test_an_example_may_hold_a_vector(ask):
    with pytest.raises(SignatureError, match="one number a row"):
        ask("Regress", classification(example(vector=[1.0, 2.0]), model="vector", kind=SAID.RegressionRequest))
    said = ask("Classify", classification(example(vector=[1.0, 2.0]), model="vector"))
    assert [one.score for one in said.result.classifications[0].classes] == [1.0, 2.0]


def test_a_missing_text_is_missing(engine, ask):
    ask("Classify", classification(example(city=[b"a"]), example(), model="text"))
    assert engine.asked[-1].inputs["city"].tolist() == ["a", None]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (classification(), "no examples"),
        (classification(example(age=[1.0]), example(age=[1])), r"examples\[1\]\.features\['age'\]: found int64_list"),
        (classification(example(age=[1.0]), example()), r"examples\[1\]\.features\['age'\]: found 0 values"),
        (
            classification(example(age=[1.0, 2.0])),
            r"examples\[0\]\.features\['age'\]: found 2 values, expected 1 value",
        ),
        (classification(example(vector=[1.0]), model="vector"), "found 1 values, expected 2 values"),
        (classification(example(city=[b"\xff"]), model="text"), "UTF-8"),
        (classification(example(), model="vector"), "vector"),
    ],
)
def test_examples_that_do_not_fit(ask, request_, said):
    with pytest.raises(SignatureError, match=said):
        ask("Classify", request_)


def test_a_context_is_not_multiplied_without_end(ask):
    request = classification(*[example()] * 1000, context=example(city=[b"x" * 100_000], age=[1.0]))
    with pytest.raises(LimitExceededError, match="for 1000 examples"):
        ask("Classify", request)


def test_multi_inference_answers_the_same_examples_in_several_ways(ask):
    request = SAID.MultiInferenceRequest()
    for name in (tensorflow_grpc.CLASSIFY, tensorflow_grpc.REGRESS):
        request.tasks.add(method_name=name).model_spec.name = "table"
    request.input.example_list.examples.append(FULL)
    said = ask("MultiInference", request)
    assert said.results[0].classification_result.classifications[0].classes[1].score == 0.75
    assert said.results[1].regression_result.regressions[0].value == 0.5
    assert said.results[1].model_spec.name == "table"
    request.tasks[1].method_name = "other"
    with pytest.raises(SignatureError, match=r"tasks\[1\]\.method_name: found 'other'"):
        ask("MultiInference", request)
    with pytest.raises(SignatureError, match="tasks: found 0"):
        ask("MultiInference", SAID.MultiInferenceRequest())


def test_the_metadata_is_the_signature(ask):
    request = SAID.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "table"
    said = ask("GetModelMetadata", request)
    packed = said.metadata["signature_def"]
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signature = SAID.SignatureDefMap.FromString(packed.value).signature_def["serving_default"]
    assert {name: TYPES.Name(one.dtype) for name, one in signature.inputs.items()} == {
        "age": "DT_DOUBLE",
        "city": "DT_STRING",
        "count": "DT_INT64",
    }
    assert [dim.size for dim in signature.outputs["scores"].tensor_shape.dim] == [-1, 2]
    assert said.model_spec.version.value == 7
    for fields in ([], ["other"]):
        bad = SAID.GetModelMetadataRequest(model_spec=request.model_spec, metadata_field=fields)
        with pytest.raises(MalformedError, match="expected signature_def"):
            ask("GetModelMetadata", bad)


def status(ask, **spec):
    said = ask("GetModelStatus", SAID.GetModelStatusRequest(model_spec=spec))
    return [(one.version, SAID.ModelVersionStatus.State.Name(one.state)) for one in said.model_version_status]


def test_the_status_of_versions(ask):
    assert status(ask, name="table") == [(7, "AVAILABLE"), (1, "AVAILABLE")]
    assert status(ask, name="table", version={"value": 1}) == [(1, "AVAILABLE")]
    assert status(ask, name="gone") == [(1, "END")]
    with pytest.raises(ReferenceNotFoundError):
        status(ask, name="nope")


def reload(*models):
    made = SAID.ReloadConfigRequest()
    made.config.model_config_list.SetInParent()
    for name, path in models:
        made.config.model_config_list.config.add(name=name, base_path=path, model_platform="tensorflow")
    return made


def test_a_configuration_loads_models_by_reference(engine, ask):
    said = ask("HandleReloadConfigRequest", reload(("table", "table@production")), client="admin")
    assert said.status.error_code == 0
    assert [(one.name, one.reference) for one in engine.loaded] == [("table", "table@production")]
    failed = ask("HandleReloadConfigRequest", reload(("nope", "nope:1")), client="admin")
    assert (failed.status.error_code, "nope" in failed.status.error_message) == (5, True)
    with pytest.raises(DeniedError):
        ask("HandleReloadConfigRequest", reload(("table", "table")), client="me")
    with pytest.raises(MalformedError, match=r"model_config_list\[0\]"):
        ask("HandleReloadConfigRequest", reload(("table", "")), client="admin")
    custom = SAID.ReloadConfigRequest()
    custom.config.custom_model_config.SetInParent()
    with pytest.raises(NotOfferedError):
        ask("HandleReloadConfigRequest", custom, client="admin")
    with pytest.raises(MalformedError, match="found nothing"):
        ask("HandleReloadConfigRequest", SAID.ReloadConfigRequest(), client="admin")


def test_there_are_no_sessions(ask):
    with pytest.raises(NotOfferedError, match="use PredictionService"):
        ask("SessionRun", b"")


def test_a_complex_output_stays_complex(engine, ask):
    wave = Field(name="wave", dtype="complex64")
    engine.add("wave", (wave,), (wave,), dict)
    said = ask("Predict", predict("wave", wave=tensor("DT_COMPLEX64", [1], scomplex_val=[1.0, -2.0])))
    assert found(said.outputs["wave"]).tolist() == [1 - 2j]
