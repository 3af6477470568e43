"""Hugging Face models: saved as their library saves them, read without code of theirs, exported with free sizes."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import vitrify
from vitrify.core.errors import MalformedError, UnsupportedModelError, UsageError
from vitrify.core.protocols import Allow
from vitrify.formats.hugging_face import HuggingFace
from vitrify.runtimes.transformers import TransformersRuntime
from vitrify.testing.formats import FormatConformance
from vitrify.testing.runtimes import RuntimeConformance

tf = pytest.importorskip("transformers")

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


def bert():
    torch.manual_seed(0)
    return tf.BertModel(tf.BertConfig(vocab_size=60, max_position_embeddings=32, **SMALL)).eval()


def tokens():
    ids = torch.arange(20).reshape(4, 5) % 60
    mask = torch.ones_like(ids)
    mask[1, 3:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def tokenizer(folder):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "glass", "model", "is", "the", "clear"]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    return tf.BertTokenizer(str(folder / "vocab.txt"))


class TestHuggingFace(FormatConformance):
    format = HuggingFace()

    def model(self):
        return bert()

    def same(self, left, right):
        given = tokens()
        with torch.no_grad():
            return torch.equal(left(**given).last_hidden_state, right(**given).last_hidden_state)

    def test_a_truncated_file_is_a_typed_error(self, tmp_path):
        """The weights cut off; a configuration cut off is no JSON."""
        sink, written = self._write(bert(), tmp_path / "a")
        for path in sink.paths.values():
            whole = path.read_bytes()
            path.write_bytes(whole[: len(whole) // 3])
            with pytest.raises((MalformedError, UnsupportedModelError)):
                self.format.read(sink.files(), written.entry, Allow())
            path.write_bytes(whole)


class TestTransformersRuntime(RuntimeConformance):
    runtime = TransformersRuntime()
    format = HuggingFace()

    def model(self):
        return bert()

    def example(self):
        return tokens()


def test_where_a_model_was_loaded_from_is_not_written(tmp_path, store):
    bert().save_pretrained(tmp_path / "bert")
    model = tf.BertModel.from_pretrained(tmp_path / "bert")
    saved = vitrify.save(model, "bert", example=tokens())
    config = json.loads(saved.files.read("config.json"))
    assert str(tmp_path) not in json.dumps(config)
    assert saved.signature.outputs[0].shape == ("batch", 5, 16)


def test_a_class_of_ones_own_is_refused_with_the_way_out(tmp_path):
    class Mine(tf.BertModel):
        pass

    from vitrify.testing.directory import DirectorySink

    with pytest.raises(UnsupportedModelError, match="no class of transformers") as caught:
        HuggingFace().write(Mine(bert().config), DirectorySink(tmp_path), None)
    assert "torch-export" in caught.value.remedy


@pytest.mark.slow
def test_text_goes_in_where_there_is_a_tokenizer_and_the_way_to_tensors_is_named(tmp_path, store):
    pair = (bert(), tokenizer(tmp_path))
    texts = ["glass is clear", "the model"]
    saved = vitrify.save(pair, "text", example=texts, format="hugging-face")
    assert saved.signature.inputs[0].dtype == "string"
    assert saved.signature.outputs[0].shape == ("batch", "tokens", 16)
    given = pair[1](["the glass model is clear"], return_tensors="pt")
    with torch.no_grad():
        theirs = pair[0](**given).last_hidden_state.numpy()
    assert np.array_equal(vitrify.load("text").predict(["the glass model is clear"])["last_hidden_state"], theirs)
    with pytest.raises(UnsupportedModelError, match="text") as caught:
        vitrify.convert("text", to="torch-export")
    assert "return_tensors" in caught.value.problems[0].remedy


def test_text_without_a_tokenizer_is_refused(store):
    with pytest.raises(UsageError, match="tokenizer"):
        vitrify.save(bert(), "t", example=["glass"], format="hugging-face")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit", "t5"])
def test_a_model_is_exported_with_sizes_that_may_change(kind, store):
    sizes = {"input_ids": {1: "length"}, "attention_mask": {1: "length"}}
    torch.manual_seed(0)
    model, example, dynamic = {
        "bert": lambda: (bert(), tokens(), sizes),
        "gpt2": lambda: (
            tf.GPT2LMHeadModel(
                tf.GPT2Config(
                    vocab_size=60, n_embd=16, n_layer=1, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=0
                )
            ),
            tokens(),
            sizes,
        ),
        "vit": lambda: (
            tf.ViTForImageClassification(tf.ViTConfig(image_size=8, patch_size=4, **SMALL)),
            {"pixel_values": torch.randn(3, 3, 8, 8)},
            None,
        ),
        "t5": lambda: (
            tf.T5EncoderModel(tf.T5Config(vocab_size=60, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)),
            tokens(),
            sizes,
        ),
    }[kind]()
    vitrify.save(model.eval(), kind, example=example, dynamic=dynamic)
    vitrify.convert(kind, to="torch-export")
    exported, native = vitrify.load(f"{kind}-torch-export"), vitrify.load(kind)
    given = {name: value.numpy() for name, value in example.items()}
    if dynamic:
        given = {name: np.tile(value, (2, 3)) for name, value in given.items()}
    for name, array in native.predict(given).items():
        np.testing.assert_allclose(exported.predict(given)[name], array, rtol=1e-5, atol=1e-6)
