"""The other side of :mod:`.keras`: run as ``python -I -m``, with Keras on TensorFlow.

Reads a request on standard input, writes a saved model's files into a folder and one line of JSON to standard output.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from vitrify.artifacts import code
from vitrify.core.document import Document
from vitrify.core.errors import VitrifyError
from vitrify.core.protocols import Allow
from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.manifest import FileKind


class _Folder:
    """A sink over a plain folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.files: dict[str, tuple[str, FileKind]] = {}

    @contextmanager
    def path(self, name: str, kind: FileKind) -> Iterator[Path]:
        self.files[name] = (str(len(self.files)), kind)
        yield self._root / self.files[name][0]

    @contextmanager
    def open(self, name: str, kind: FileKind) -> Iterator[BinaryIO]:
        with self.path(name, kind) as path, path.open("wb") as stream:
            yield stream


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    files = LocalFiles({name: Path(path) for name, path in request["files"].items()})
    document = Document.from_builtins(request["document"], where="export request")
    sink = _Folder(Path(request["folder"]))
    try:
        code.install(document.code, files)
        entry = _export(files, document, Allow.of(request["allow"]), sink)
        answer: dict[str, Any] = {"entry": entry, "files": sink.files}
    except (VitrifyError, ImportError) as error:
        answer = {"error": f"{type(error).__name__}: {getattr(error, 'message', error)}"}
        answer["remedy"] = getattr(error, "remedy", "")
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


def _export(files: LocalFiles, document: Document, allow: Allow, sink: _Folder) -> dict[str, Any]:
    from vitrify.formats._keras.call import call
    from vitrify.formats._tensorflow.live import variables_of
    from vitrify.formats._tensorflow.serving import traced
    from vitrify.formats.keras import Keras
    from vitrify.formats.saved_model import SavedModel

    model = Keras().read(files, document.entry, allow)
    assert document.signature is not None
    signature = document.signature
    by_port = traced(lambda tensors: call(model, tensors, signature), signature)
    names = {id(variable.value): variable.path for variable in model.variables if hasattr(variable, "path")}
    read = variables_of(by_port.function)
    variables = {names.get(id(variable), variable.name.partition(":")[0]): variable for variable in read}
    alone = variables if len(variables) == len(read) else None
    SavedModel().write_function(by_port.function, model, sink, alone)
    return by_port.entry()


if __name__ == "__main__":
    main()
