"""What a Hugging Face directory says about itself. Its weights are looked at by their headers only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.formats import _facts
from vitrify.formats._hugging_face.layout import ADAPTER, CONFIG, PIPELINE, read, shards
from vitrify.formats._native_file import said
from vitrify.formats._safetensors.shards import SUFFIX, describe_tensors
from vitrify.reading import yaml
from vitrify.reading.files import HeldFiles

if TYPE_CHECKING:
    from vitrify.core.protocols import Files

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".onnx", ".h5", ".msgpack", ".ckpt", ".tflite", ".ot")
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "vocab_size",
)
_TOKENIZER_FILES = frozenset(
    {
        *("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "merges.txt", "spiece.model"),
        *("sentencepiece.bpe.model", "special_tokens_map.json", "added_tokens.json", "tekken.json"),
    }
)
_FRONT_MATTER = re.compile(rb"---\r?\n(.*?)\r?\n---(?:\r?\n|$)", re.DOTALL)
_MAX_CARD = 1024 * 1024
_MAX_CLASSES = 10_000
_MAX_LENGTH = 10**12


def describe(files: Files, base: str) -> dict[str, Any]:
    """Return architecture, versions, sizes, weights, tokenizer, licence and what it needs to run."""
    config, adapter, pipeline = (read(files, base + name) for name in (CONFIG, ADAPTER, PIPELINE))
    tokenizer = read(files, f"{base}tokenizer_config.json")
    card = _card(files, f"{base}README.md")
    code = [name for name in files.names() if name.startswith(base) and name.endswith(".py")]
    remote = any("auto_map" in one for one in (config, tokenizer, adapter))
    version = config.get("transformers_version") or pipeline.get("_diffusers_version")
    library = "diffusers" if pipeline or "_diffusers_version" in config else "peft" if adapter else "transformers"
    return said(
        {
            "library": library,
            "versions": {library: str(version)} if version else {},
            "class": ", ".join(map(str, _listed(config.get("architectures")))) or pipeline.get("_class_name"),
            "model_type": config.get("model_type"),
            "adapter": said({key: adapter.get(key) for key in ("peft_type", "base_model_name_or_path", "task_type")}),
            "dtype": config.get("dtype") or config.get("torch_dtype"),
            "quantisation": config.get("quantization_config"),
            "sizes": {key: config[key] for key in _SIZES if key in config},
            "classes": _classes(config),
            "license": card.get("license"),
            "card": {key: value for key, value in card.items() if key != "license"},
            "tokenizer": _tokenizer(files, base, tokenizer),
            "generation": read(files, f"{base}generation_config.json"),
            "components": {
                key: ".".join(map(str, value))
                for key, value in pipeline.items()
                if isinstance(value, list) and not key.startswith("_")
            },
            "needs": _needs(library, version, remote=remote),
            "code": remote,
            "code_files": code,
            "files": {
                name[len(base) :]: len(files.map(name))
                for name in files.names()
                if name.startswith(base) and name.endswith(_WEIGHTS)
            },
            **(_parts(files, base, pipeline) if pipeline else _weights(files, base)),
        }
    )


def _weights(files: Files, base: str) -> dict[str, Any]:
    """Return the tensors: of a sharded set, or else of the safetensors file that is called as the library does."""
    sets = [*shards(files, base).values()]
    single = [f"{base}{stem}{SUFFIX}" for stem in ("model", "diffusion_pytorch_model", "adapter_model")]
    names = sets[0] if sets else next(([name] for name in single if name in files.names()), None)
    if names is None:
        return {}
    held = HeldFiles({name: files.map(name) for name in names})
    found = describe_tensors(held, {"shards": [name for name in names if name.endswith(SUFFIX)]})
    return {key: found[key] for key in ("tensors", "parameters", "bytes", "precision")}


def _parts(files: Files, base: str, pipeline: dict[str, Any]) -> dict[str, Any]:
    """Return the tensors of a pipeline's components, each behind the name of its folder."""
    parts = {name: _weights(files, f"{base}{name}/").get("tensors", ()) for name in pipeline}
    found = [{**one, "name": f"{name}/{one['name']}"} for name, tensors in parts.items() for one in tensors]
    return _facts.weights(found) if found else {}


def _card(files: Files, name: str) -> dict[str, Any]:
    """Return what stands before the text of the model's card, as far as it can be read."""
    if name not in files.names():
        return {}
    found = _FRONT_MATTER.match(bytes(files.map(name)[:_MAX_CARD]))
    try:
        card = yaml.parse(found[1], where=name) if found else {}
    except MalformedError:  # a text for people, which no program has to read
        return {}
    wanted = ("license", "language", "tags", "datasets", "base_model", "pipeline_tag", "library_name")
    return {key: card[key] for key in wanted if card.get(key)} if isinstance(card, dict) else {}


def _classes(config: dict[str, Any]) -> list[str]:
    labels = config.get("id2label")
    if not isinstance(labels, dict) or len(labels) > _MAX_CLASSES:
        return []
    return [str(label) for _, label in sorted(labels.items(), key=lambda item: (len(item[0]), item[0]))]


def _tokenizer(files: Files, base: str, config: dict[str, Any]) -> dict[str, Any]:
    template = config.get("chat_template") is not None or f"{base}chat_template.jinja" in files.names()
    length = config.get("model_max_length")
    return said(
        {
            "class": config.get("tokenizer_class"),
            # Transformers writes 10^30 where it knows no length.
            "max_length": length if isinstance(length, int) and length < _MAX_LENGTH else None,
            "files": [
                name[len(base) :]
                for name in files.names()
                if name.startswith(base) and name[len(base) :] in _TOKENIZER_FILES
            ],
            "chat_template": template or None,
        }
    )


def _needs(library: str, version: Any, *, remote: bool) -> list[str]:
    needs = [f"{library}>={version}" if version else library]
    return [*needs, "trust_remote_code=True: it runs Python code that comes with the model"] if remote else needs


def _listed(value: Any) -> list[Any]:
    """Return what should be a list as one, whatever a stranger's configuration has there."""
    return value if isinstance(value, list) else [] if value is None else [value]
