"""Samples of what lies beside a model: text, pictures, code."""

from __future__ import annotations

import base64
import struct
import wave
import zlib

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
JPEG = (
    base64.b64decode(
        "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////"
        "////////wgALCAABAAEBAREA/8QAFBABAAAAAAAAAAAAAAAAAAAAAP/aAAgBAQABPxA="
    )
    + b"\xff\xd9"
)
WEBP = base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")

README = """---
license: apache-2.0
---
# A model

Eval mode: `model.eval()`. Never call `os.system` on what it says.

```python
import torch
model = torch.load("model.pt")
```
"""


def png():
    """Return a picture of one pixel."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    return PNG_SIGNATURE + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


def _file(name, data):
    def make(folder):
        path = folder / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return make


def _wave(folder):
    path = folder / "sound.wav"
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0" * 80)
    return path


SAMPLES = {
    "text/markdown": _file("README.md", README),
    "text/json": _file(
        "tokenizer.json", '{"version": "1.0", "eval": ["__import__", "os.system"], "merges": [["a", "b"]]}'
    ),
    "text/csv": _file("labels.csv", "id,label\n1,cat\n2,dog\n"),
    "text/yaml": _file("environment.yaml", "name: model\ndependencies:\n  - python=3.11\n  - numpy\n"),
    "text/utf-16": _file("notes.txt", "Größe: 3 µm\n".encode("utf-16")),
    "text/latin-1": _file("LICENSE", "Copyright © 2026 Müller\n".encode("latin-1")),
    "text/requirements": _file("requirements.txt", "torch>=2.0\nnumpy\n"),
    "text/vocabulary": _file("vocab.txt", "[PAD]\n[UNK]\nhello\n##ing\n(\n)\n"),
    "jinja/chat": _file("chat.jinja", "{% for m in messages %}{{ m['role'] }}: {{ m.content.strip() }}\n{% endfor %}"),
    "hugging-face-json/tokenizer": _file(
        "tokenizer_config.json", '{"chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}", "pad": null}'
    ),
    "hugging-face-json/modules": _file(
        "modules.json", '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]'
    ),
    "weights-index/transformers": _file(
        "model.bin.index.json", '{"metadata": {"total_size": 4}, "weight_map": {"w": "model-00001-of-00001.bin"}}'
    ),
    "graph-text/graph!": _file("graph.pbtxt", 'node {\n  name: "x"\n  op: "Placeholder"\n}\n'),
    "keras-json/architecture": _file(
        "architecture.json",
        '{"class_name": "Sequential", "config": {"name": "s", "layers": [{"class_name": "Dense", "config": {"units": 2,'
        ' "activation": "relu"}}]}, "keras_version": "2.15.0", "backend": "tensorflow"}',
    ),
    "text/docstring": _file("__init__.py", '"""Nothing here."""\n'),
    "media/png": _file("picture.png", png()),
    "media/gif": _file("picture.gif", GIF),
    "media/jpeg": _file("picture.jpg", JPEG),
    "media/webp": _file("picture.webp", WEBP),
    "media/wave": _wave,
    "python-source/module!": _file("modeling.py", "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n"),
    "python-source/statement!": _file("notes.txt", "__import__('os').getcwd()\n"),
    "script/shell!": _file("install.sh", "#!/bin/sh\necho hello\n"),
}
