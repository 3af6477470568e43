"""All models that the ``onnx`` package brings to test backends: read, written again, and run.

Those that ONNX Runtime cannot run, or answers otherwise than was recorded, are in ``onnx_backend.txt`` by who answers
them instead and by reason; the first kind must be refused with a typed error. ``VITRIFY_UPDATE=1`` writes that file
again.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from vitrify.core.document import Document
from vitrify.core.errors import ModelError, UnsupportedModelError
from vitrify.core.protocols import Allow
from vitrify.formats.onnx import Onnx, serialise
from vitrify.runtimes.onnx_reference import OnnxReference, evaluator
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.testing.directory import DirectorySink

pytestmark = pytest.mark.slow

LISTED = Path(__file__).with_name("onnx_backend.txt")
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
RECORDED = {
    "tensor_type": (onnx.TensorProto, numpy_helper.to_array),
    "sequence_type": (onnx.SequenceProto, numpy_helper.to_list),
    "optional_type": (onnx.OptionalProto, numpy_helper.to_optional),
}
REGISTERED = 2  # how NumPy marks the element types of another library
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
DIFFERS = "ONNX Runtime answers otherwise than was recorded"
DRAWN = "the standard leaves open what is drawn at random"
ROUNDED = "it is right but for rounding: what should be 0 is up to 0.0004 beside numbers in the hundreds"
MASKED = "what is masked has the lowest number as its score, not minus infinity; the answer itself is the recorded one"
LENGTH = "the standard leaves open whether align_corners takes the length before it is rounded, as recorded, or after"
WHY = {
    "test_attention_4d_causal_fp16": "it is right but for rounding: of 192 numbers one is two steps of float16 off",
    "test_attention_4d_with_past_and_present_qk_matmul_bias": MASKED,
    "test_dft": ROUNDED,
    "test_stft": ROUNDED,
    "test_maxunpool_export_with_output_shape": "it takes the indices of MaxPool for places in the larger output",
    "test_resize_downsample_scales": LENGTH,
    "test_training_dropout": DRAWN,
}
"""Which side is wrong, by how the names begin."""

TO_THE_REFERENCE = "onnx-reference gives what was recorded"
TO_THE_EVALUATOR = "the evaluator gives what was recorded, and a session takes arrays"
TO_NOBODY = "nobody gives what was recorded"
LARGE = 10_000
"""Values of recorded answers, from which on Python is left out where ONNX Runtime has been right."""

BEFORE_THE_REFERENCE = {"LogSoftmax", "Scan", "Scatter", "Softmax"}
"""What ONNX Runtime has and the reference has not, in these models: versions from before it."""


@cache
def cases():
    """Return name, model, recorded calls and tolerance of every case; those on disk are read."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = [one for kind in KINDS for one in load_model_tests(kind=kind)]
    made = []
    for one in found:
        model = one.model if one.model is not None else onnx.load(Path(one.model_dir) / "model.onnx")
        calls = one.data_sets if one.model is not None else list(recorded(Path(one.model_dir), model))
        made.append((one.name, model, calls, one.rtol, one.atol))
    assert len({name for name, *_ in made}) == len(made) > 2000
    assert all(calls for _, _, calls, *_ in made)
    return made


def recorded(folder, model):
    for place in sorted(folder.glob("test_data_set_*")):
        sides = ((model.graph.input, "input"), (model.graph.output, "output"))
        yield tuple(
            [
                held(place / f"{kind}_{index}.pb", value)
                for index, value in enumerate(side)
                if (place / f"{kind}_{index}.pb").exists()
            ]
            for side, kind in sides
        )


def held(path, value):
    kind, convert = RECORDED[value.type.WhichOneof("value")]
    return convert(kind.FromString(path.read_bytes()))


def plain(value):
    """Return a recorded value as an array; the generated cases hold protocol buffers where NumPy has no type."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def listed():
    reasons, names = "", {}
    for line in LISTED.read_text().splitlines():
        if line.startswith("# "):
            reasons = line.removeprefix("# ")
        elif line.strip():
            names[line.strip()] = reasons
    return names


def reason(error):
    """Return why a case is refused, without versions and names."""
    if isinstance(error, UnsupportedModelError) and error.problems:
        if "evaluator" in error.message:
            return f"no evaluator of {' and '.join(sorted({problem.place for problem in error.problems}))}"
        kinds = {problem.message.partition(",")[0] for problem in error.problems}
        return f"not what NumPy has: {' and '.join(sorted(kinds))}"
    if "NOT_IMPLEMENTED" in error.message or "not implemented" in error.message.lower():
        return "ONNX Runtime has no kernel for it"
    if "is not a registered function/op" in error.message:
        return "ONNX Runtime does not know the operator"
    return "ONNX Runtime refuses its attributes, its inputs or their sizes"


def agree(got, expected, rtol, atol):
    if isinstance(expected, list):
        return len(got) == len(expected) and all(agree(*pair, rtol, atol) for pair in zip(got, expected, strict=True))
    if expected is None:
        return got is None
    expected = np.asarray(expected)
    if expected.dtype.kind in "OSU":
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in expected.ravel().tolist()]
        return got.shape == expected.shape and got.ravel().tolist() == texts
    return (
        got.dtype == expected.dtype
        and got.shape == expected.shape
        and np.allclose(got, expected, rtol, atol, equal_nan=True)
    )


def held_by(array):
    """Return what an optional output holds; any other is itself."""
    is_optional = array.dtype == object and array.shape == () and not isinstance(array.item(), str)
    return array.item() if is_optional else array


def wide(value):
    """Return a recorded value in types that NumPy has."""
    array = plain(value)
    if not isinstance(array, np.ndarray) or array.dtype.isbuiltin != REGISTERED:
        return array
    name = array.dtype.name
    return array.astype({"uint": np.uint8, "int": np.int8}.get(name.rstrip("24"), np.float32))


def asked(runtime, model, calls, rtol, atol):
    """Return nothing where every call of a session gives what was recorded, and the reason where not."""
    try:
        signature = runtime.signature(model)
        session = runtime.wrap(model, Document(schema=1, format="onnx", runtime="", signature=signature))
        for inputs, outputs in calls:
            given = {
                field.name: np.asarray(wide(value)) for field, value in zip(signature.inputs, inputs, strict=False)
            }
            results = session.run(given)
            for array, expected in zip(results.values(), outputs, strict=False):
                if not agree(held_by(array), wide(expected), rtol, atol):
                    return DIFFERS
    except (UnsupportedModelError, ModelError) as error:
        return reason(error)
    return ""


def evaluated(model, calls, rtol, atol):
    """Say whether the evaluator gives what was recorded, where a session could not take it."""
    engine = evaluator(model)
    return all(
        agree(got, plain(expected), rtol, atol)
        for inputs, outputs in calls
        for got, expected in zip(
            engine.evaluate(engine.output_names, dict(zip(engine.input_names, map(plain, inputs), strict=True))),
            outputs,
            strict=True,
        )
    )


def outcome(name, model, calls, rtol, atol):
    """Return nothing where ONNX Runtime gives what was recorded; else who does, and the reason."""
    why = asked(OnnxRuntime(), model, calls, rtol, atol)
    if not why:
        return ""
    if why == DIFFERS:
        why = f"{DIFFERS}: {next(text for start, text in WHY.items() if name.startswith(start))}"
    otherwise = asked(OnnxReference(), model, calls, rtol, atol)
    if not otherwise:
        return f"{TO_THE_REFERENCE}: {why}"
    if otherwise.startswith("not what NumPy has") and evaluated(model, calls, rtol, atol):
        return f"{TO_THE_EVALUATOR}: {otherwise}"
    return f"{TO_NOBODY}: {DRAWN if otherwise == DIFFERS else otherwise}"


def test_every_model_is_written_again_to_the_same_bytes_and_described(tmp_path):
    for number, (name, model, *_) in enumerate(cases()):
        folder = tmp_path / str(number)
        folder.mkdir()
        sink = DirectorySink(folder)
        entry = Onnx().write(model, sink, None).entry
        files = sink.files()
        assert Onnx().detect(files), name
        again = Onnx().read(files, entry, Allow())
        assert serialise(again) == serialise(model) == sink.contents()["model.onnx"], name
        found = Onnx().describe(files, entry)
        assert [one["name"] for one in found["outputs"]] == [value.name for value in model.graph.output], name


def test_every_model_gives_what_was_recorded_or_is_refused_for_a_known_reason():
    found = {case[0]: why for case in cases() if (why := outcome(*case))}
    if os.environ.get("VITRIFY_UPDATE"):
        groups = {why: sorted(name for name in found if found[name] == why) for why in sorted(set(found.values()))}
        LISTED.write_text("\n".join(f"# {why}\n" + "\n".join(names) + "\n" for why, names in groups.items()))
    assert found == listed()
    # Here and not in a test of its own, because making the cases takes longer than this.
    left = [
        case
        for name, *case in cases()
        if name not in found and sum(getattr(one, "size", 0) for _, outputs in case[1] for one in outputs) < LARGE
    ]
    wrong = {why for case in left if (why := asked(OnnxReference(), *case))}
    assert len(left) > 1600
    assert wrong == {f"no evaluator of {name}" for name in BEFORE_THE_REFERENCE}


def test_what_is_drawn_at_random_is_of_the_recorded_kind():
    names = {name for name, why in listed().items() if why == f"{TO_NOBODY}: {DRAWN}"}
    drawn = [(model, calls) for name, model, calls, *_ in cases() if name in names]
    assert drawn
    for model, calls in drawn:
        signature = OnnxReference().signature(model)
        session = OnnxReference().wrap(model, Document(schema=1, format="onnx", runtime="", signature=signature))
        for (chances,), (expected,) in calls:
            (got,) = session.run({signature.inputs[0].name: chances}).values()
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            assert set(got.tolist()) <= {0, 1}


def test_answers_that_are_not_the_recorded_ones_are_onnx_runtimes_own():
    names = {name for name, why in listed().items() if DIFFERS in why}
    assert names
    for name, model, calls, *_ in cases():
        if name not in names:
            continue
        options = onnxruntime.SessionOptions()
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        signature = OnnxRuntime().signature(model)
        document = Document(schema=1, format="onnx", runtime="onnxruntime", signature=signature)
        for inputs, _ in calls:
            given = {
                field.name: np.asarray(plain(value)) for field, value in zip(signature.inputs, inputs, strict=False)
            }
            ours = OnnxRuntime().wrap(model, document).run(given)
            for left, right in zip(ours.values(), session.run(None, given), strict=True):
                np.testing.assert_array_equal(left, right, err_msg=name)


@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_published_networks_give_what_was_recorded(path):
    model = onnx.load(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    feeds = {}
    for value in model.graph.input:
        if value.name not in constants:
            sizes = tuple(one.dim_value for one in value.type.tensor_type.shape.dim)
            count = np.prod(sizes)
            feeds[value.name] = (np.arange(count).reshape(sizes) / count).astype(np.float32)
    signature = OnnxRuntime().signature(model)
    document = Document(schema=1, format="onnx", runtime="onnxruntime", signature=signature)
    (result,) = OnnxRuntime().wrap(model, document).run(feeds).values()
    written = path.with_name(f"{path.stem}_output_0.pb").read_bytes()
    expected = numpy_helper.to_array(onnx.TensorProto.FromString(written))
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-5)
