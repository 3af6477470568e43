"""The mark: found by its key after what a copy goes through, by no other key, and never made where it would be lost."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from transforms.protect.conftest import network, rows

import vitrify
from vitrify.core.attestation import PARITY
from vitrify.core.errors import CheckFailedError, DeniedError, MalformedError, UnsupportedModelError, UsageError
from vitrify.core.plan import Step
from vitrify.formats.onnx import Onnx
from vitrify.transforms.protect import ProtectKey, _code, _mark, detect, embed, obfuscate
from vitrify.transforms.protect.key import held, key_of
from vitrify.transforms.protect.watermark import MarkOnnx, detect_in, payload_of

ID = "acme-042"
PAYLOAD = payload_of(ID)


def weights(count=5000, seed=0):
    return (np.random.default_rng(seed).normal(size=count) * 0.05).astype(np.float32)


def mark(values, key, strength=1):
    return _mark.marked(values, key.derive("mark"), PAYLOAD, strength)


def look(values, key, **more):
    return detect_in(lambda: iter([values]), key, **more)


# The code


@given(st.binary(min_size=8, max_size=8), st.integers(0, 2**32))
@settings(max_examples=15)
def test_the_code_corrects_noise_and_missing_bits(payload, seed):
    random = np.random.default_rng(seed)
    sent = _code.encode(payload).astype(float)
    assert _code.decode(sent) == payload
    assert _code.decode(sent + random.normal(size=_code.LENGTH) * 0.4) == payload
    missing = random.choice(_code.LENGTH // 10, 10, replace=False) * 10
    sent[missing] = 0.0
    assert _code.decode(sent) == payload


def test_noise_is_no_id():
    """But once in 65,536 times."""
    random = np.random.default_rng(0)
    assert [_code.decode(random.normal(size=_code.LENGTH)) for _ in range(20)] == [None] * 20


# What it changes


@given(st.integers(0, 2**32), st.sampled_from(_mark.STRENGTHS), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=15)
def test_no_weight_changes_by_more_than_its_share_or_loses_its_sign(seed, strength, dtype):
    before = weights(2000, seed).astype(dtype) * 10.0 ** np.random.default_rng(seed).integers(-8, 8)
    key = ProtectKey(np.random.default_rng(seed).bytes(32))
    after = _mark.marked(before, key.derive("mark"), PAYLOAD, strength)
    assert after.dtype == before.dtype
    changed = before != 0
    assert np.all(np.abs(after[changed] / before[changed] - 1) < 1.001 * np.expm1(_mark.step_of(strength)) + 1e-6)
    assert np.array_equal(np.sign(after), np.sign(before))


def test_whole_numbers_and_what_is_no_number_stay_to_the_bit(key):
    values = np.array([0.0, -0.0, 1.0, -3.0, 1e20, np.nan, np.inf, -np.inf, 0.5] * 20, np.float32)
    after = mark(values, key)
    same = np.tile([True] * 8 + [False], 20)
    assert after[same].tobytes() == values[same].tobytes()
    assert np.all(after[~same] != values[~same])


def test_marking_again_with_the_same_key_and_id_changes_nothing_more(key):
    once = mark(weights(), key).astype(np.float64)
    twice = mark(once, key)
    assert np.allclose(twice, once, rtol=1e-6, atol=0)


# Finding it


def test_it_is_found_by_its_key_and_says_the_id(key):
    found = look(mark(weights(), key), key)
    assert found.present
    assert found.id == ID
    assert found.log10_p < -100
    assert found.strength == 1
    assert found.weights == 5000


@pytest.mark.parametrize(
    "change",
    [
        lambda marked: marked.astype(np.float16),
        lambda marked: marked.astype(np.float64),
        lambda marked: marked * (1 + 1e-4 * np.random.default_rng(1).normal(size=marked.shape)),
        lambda marked: marked + 1e-4 * marked.std() * np.random.default_rng(1).normal(size=marked.shape),
        lambda marked: np.where(np.abs(marked) < np.quantile(np.abs(marked), 0.1), 0, marked),
        lambda marked: np.where(np.abs(marked) < np.quantile(np.abs(marked), 0.5), 0, marked),
        lambda marked: np.random.default_rng(1).permutation(marked),
        lambda marked: marked[: len(marked) // 5],
        lambda marked: np.concatenate([marked, weights(5000, seed=9)]),
        lambda marked: np.where(np.random.default_rng(1).random(len(marked)) < 0.5, marked, weights(len(marked), 7)),
    ],
    ids=[
        "half",
        "double",
        "noise",
        "absolute noise",
        "pruned",
        "half pruned",
        "shuffled",
        "a fifth",
        "mixed",
        "swapped",
    ],
)
def test_it_survives_what_a_copy_goes_through(key, change):
    found = look(change(mark(weights(), key)), key)
    assert found.present
    assert found.id == ID


@pytest.mark.parametrize("strength", _mark.STRENGTHS)
def test_every_strength_is_found_and_the_strongest_survives_bfloat16(key, strength):
    marked = mark(weights(20_000), key, strength)
    assert look(marked, key).strength == strength
    assert look(marked, key).id == ID
    if strength == 5:
        assert look(marked.astype(ml_dtypes.bfloat16), key).id == ID


def test_what_it_does_not_survive_is_reported_as_absent(key):
    """The limits that the page states: eight bits, and training that moves every weight by a percent."""
    marked = mark(weights(), key)
    scale = np.abs(marked).max() / 127
    assert not look(np.round(marked / scale) * scale, key).present
    trained = marked * (1 + 1e-2 * np.random.default_rng(1).normal(size=marked.shape))
    assert not look(trained, key).present


def test_a_weak_mark_counts_where_its_id_was_expected(key):
    few = mark(weights(60), key)
    assert not look(few, key).present
    assert look(few, key, id=ID).present
    assert not look(few, key, id="another").present


# Not finding it


def test_no_other_key_finds_it_more_often_than_the_p_value_says(key):
    """Over weights that carry a mark, which are the worst case: their cells are all sharp."""
    marked = mark(weights(2000), key)
    chances = np.array(
        [look(marked, ProtectKey(number.to_bytes(32, "big")), id=ID).log10_p for number in range(1, 151)]
    )
    for bound in (0.1, 0.01):
        assert np.mean(chances < np.log10(bound)) <= bound
    assert chances.min() > -4


def test_the_bound_is_no_bound_of_another_kind():
    """Its exponent alone, at one strength, without paying for anything: how often it is passed by chance."""
    marked = _mark.marked(weights(1000), b"k" * 32, PAYLOAD, 1)
    exponents = np.array(
        [_mark.agreement([marked], number.to_bytes(32, "big"), 1).exponent(PAYLOAD) for number in range(400)]
    )
    for bound in (0.2, 0.05, 0.01):
        assert np.mean(exponents > -np.log(bound)) <= bound


@pytest.mark.parametrize("values", [weights(), np.zeros(100, np.float32), np.full(1000, 0.1, np.float32)])
def test_weights_without_a_mark_have_none(key, values):
    found = look(values, key)
    assert not found.present
    assert found.log10_p == 0.0


def test_nothing_to_look_at_is_nothing_found(key):
    found = detect_in(lambda: iter(()), key)
    assert (found.present, found.weights, found.log10_p) == (False, 0, 0.0)


# Through the store


def test_a_marked_network_is_proven_and_its_mark_is_found_in_every_copy(store, key, tmp_path):
    vitrify.save(network(), "m", example=rows())
    marked = embed("m", key, ID)
    assert marked.name == "m-marked:latest"
    (proof,) = [item.predicate for item in marked.attestations if item.predicate_type == PARITY]
    assert proof["reports"][-1]["verdict"] == "clean"
    everything = b"".join(store.blob(digest).read_bytes() for digest in store.digests())
    assert ID.encode() not in everything
    assert key.secret.hex().encode() not in everything
    copies = [
        vitrify.convert(marked, to="safetensors", fidelity="lossy"),
        obfuscate(marked, key, name="renamed"),
    ]
    file = tmp_path / "copy.onnx"
    file.write_bytes(marked.files.read("model.onnx"))
    for copy in ("m-marked", *copies, file):
        assert detect(copy, key).id == ID
        assert detect(copy, key).present
        assert not detect(copy, ProtectKey(bytes(32))).present
    assert not detect("m", key).present


def test_safetensors_of_both_kinds_are_marked_and_tied_tensors_stay_tied(store, key):
    torch = pytest.importorskip("torch")
    shared = torch.from_numpy(weights(3000).reshape(30, 100))
    tensors = {"a": shared, "b": shared, "half": torch.from_numpy(weights(2000, 1)).half(), "count": torch.arange(100)}
    vitrify.save(tensors, "t")
    after = embed("t", key, "0xffff").model()
    assert after["a"].data_ptr() == after["b"].data_ptr()
    assert after["half"].dtype == torch.float16
    assert torch.equal(after["count"], tensors["count"])
    assert not torch.equal(after["a"], shared)
    assert detect("t-marked", key).id == "0x000000000000ffff"
    coarse = {"w": weights(20_000).astype(ml_dtypes.bfloat16)}
    vitrify.save(coarse, "n")
    with pytest.raises(UnsupportedModelError) as caught:
        embed("n", key, ID)
    assert "--strength" in caught.value.problems[0].remedy
    assert embed("n", key, ID, strength=5).model()["w"].dtype == ml_dtypes.bfloat16
    assert detect("n-marked", key).id == ID


def test_weights_in_branches_constants_and_old_fields_of_a_graph_are_marked_and_names_stay(key):
    model = network()
    typed = helper.make_tensor("typed", onnx.TensorProto.FLOAT, [3000], weights(3000).tolist())
    model.graph.node.append(helper.make_node("Constant", [], ["big"], value=typed))
    source = subject_of(model)
    options = {"key": key.id, "strength": 1}
    step = Step(transform="protect-onnx-watermark", source="onnx", target="onnx", fidelity="numeric", options=options)
    from vitrify.testing.directory import DirectorySink
    from vitrify.transforms.protect.watermark import _carrying

    def made(folder):
        with held(key), _carrying(PAYLOAD):
            sink = DirectorySink(folder)
            assert MarkOnnx().problems(source, step) == ()
            MarkOnnx().apply(source, step, sink)
        return onnx.load_from_string(sink.contents()["model.onnx"])

    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        result = made(Path(folder))
    constant = result.graph.node[-1].attribute[0].t
    assert constant.name == "typed"
    after = numpy_helper.to_array(constant)
    assert after.shape == (3000,)
    assert not np.array_equal(after, weights(3000))
    assert look(after, key).id == ID
    with pytest.raises(UsageError, match="needs an id"):
        MarkOnnx().apply(source, step, None)


def subject_of(model):
    from vitrify.core.document import SCHEMA, Document
    from vitrify.core.protocols import Subject
    from vitrify.reading.files import LocalFiles

    class Files(LocalFiles):
        def __init__(self):
            super().__init__({})

        def names(self):
            return ("model.onnx",)

        def read(self, name):
            return model.SerializeToString()

    return Subject(Files(), Document(schema=SCHEMA, format="onnx", runtime=None, entry={"file": "model.onnx"}), {})


def test_a_mark_that_moves_the_predictions_too_far_is_not_made(store, key):
    vitrify.save(network(), "m", example=rows())
    with pytest.raises(CheckFailedError):
        embed("m", key, ID, fidelity=1e-7)
    assert list(store.names.all()) == ["m:latest"]


def test_too_few_weights_other_formats_and_encrypted_sources_are_refused(store, key, tmp_path):
    from vitrify.artifacts.encrypt import encrypt
    from vitrify.trust.encryption import Passphrase

    vitrify.save({"few": weights(100), "whole": np.arange(5000), "small": weights(20)}, "few")
    with pytest.raises(UnsupportedModelError, match="1 part") as caught:
        embed("few", key, ID)
    assert caught.value.problems[0].message.startswith("100 weights")
    np.save(tmp_path / "array.npy", weights())
    packed = vitrify.pack(tmp_path / "array.npy", "array")
    for reference in ("array", tmp_path / "array.npy"):
        with pytest.raises(UnsupportedModelError, match=packed.document.format):
            detect(reference, key)
    with pytest.raises(UnsupportedModelError, match=packed.document.format):
        embed("array", key, ID)
    vitrify.save({"w": weights()}, "w")
    encrypt("w", [Passphrase("correct horse battery", work=4)])
    for refused in (lambda: embed("w-encrypted", key, ID), lambda: detect("w-encrypted", key)):
        with pytest.raises(DeniedError):
            refused()
    for wrong in ({"strength": 0}, {"strength": 6}):
        with pytest.raises(UsageError, match="strength"):
            embed("w", key, ID, **wrong)


@pytest.mark.parametrize("text", ["", "longer-than-8", "0x", "0xzz", "0x1" + "0" * 16, "\u00e9", "a\nb", "0x-1"])
def test_an_id_that_cannot_be_written_is_refused(text):
    with pytest.raises(UsageError):
        payload_of(text)


# Keys


def test_a_key_comes_back_from_its_file_and_is_never_shown(tmp_path):
    made = ProtectKey.generate(tmp_path / "k")
    assert ProtectKey.read(tmp_path / "k") == made
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert made.secret.hex() not in repr(made)
    assert made.derive("names") != made.derive("mark")
    for content in (b"", b"00" * 31, b"zz" * 32):
        (tmp_path / "bad").write_bytes(content)
        with pytest.raises(MalformedError):
            ProtectKey.read(tmp_path / "bad")
    with pytest.raises(UsageError):
        ProtectKey(b"short")


def test_a_step_finds_its_key_only_inside_the_block(key):
    step = Step(transform="t", source="onnx", target="onnx", fidelity="exact", options={"key": key.id})
    with held(ProtectKey(bytes(32))), held(key):
        assert key_of(step) == key
    with pytest.raises(UsageError):
        key_of(step)


def test_the_files_of_a_marked_model_differ_in_weights_alone(store, key):
    source = vitrify.save(network(), "m", example=rows())
    before = Onnx().read(source.files, source.document.entry, None)
    after = Onnx().read((marked := embed("m", key, ID)).files, marked.document.entry, None)
    for model in (before, after):
        for tensor in model.graph.initializer:
            tensor.raw_data = b""
    assert before == after
