"""A sink over a plain directory, and the files written to it: what a store gives, without the store."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import pytest

from vitrify.artifacts.local_files import LocalFiles
from vitrify.core.protocols import Allow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vitrify.core.manifest import FileKind
    from vitrify.core.protocols import Format, Written


class DirectorySink:
    """The protocol ``Sink``; as in a store, blobs lie under other names than their own, and a name is written once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: dict[str, Path] = {}

    @contextmanager
    def path(self, name: str, kind: FileKind) -> Iterator[Path]:
        assert name not in self.paths, f"{name} is written twice"
        self.paths[name] = self.root / f"blob{len(self.paths)}"
        yield self.paths[name]

    @contextmanager
    def open(self, name: str, kind: FileKind) -> Iterator[BinaryIO]:
        with self.path(name, kind) as target, target.open("xb") as stream:
            yield stream


class FilesAndSink:
    """``sink`` to write to, ``files()`` to read what was written."""

    def __init__(self, root: Path) -> None:
        self.sink = DirectorySink(root)

    def files(self) -> LocalFiles:
        return LocalFiles(self.sink.paths)


@pytest.fixture
def files_and_sink(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], FilesAndSink]:
    """Make as many independent pairs as a test asks for."""
    return lambda: FilesAndSink(tmp_path_factory.mktemp("artifact"))


@pytest.fixture
def saved(files_and_sink: Callable[[], FilesAndSink]) -> Callable[..., tuple[Written, LocalFiles, Any]]:
    """Write a model with a format; return what the format said, the files, and the model that is read from them."""

    def save(form: Format, model: Any) -> tuple[Written, LocalFiles, Any]:
        pair = files_and_sink()
        written = form.write(model, pair.sink, None)
        return written, pair.files(), form.read(pair.files(), written.entry, Allow.of(written.names))

    return save


@pytest.fixture
def elsewhere(tmp_path: Path) -> Callable[..., bytes]:
    """Read a model in a new process, call one of its methods with the example, and return the answer's bytes."""

    def ask(form: Format, files: LocalFiles, method: str, example: Any, allow: tuple[str, ...] = ()) -> bytes:
        pickled = tmp_path / "example.pickle"
        pickled.write_bytes(pickle.dumps(example))
        paths = {name: str(files.path(name)) for name in files.names()}
        script = f"""
            import numpy, pickle, sys
            from pathlib import Path
            from vitrify.artifacts.local_files import LocalFiles
            from vitrify.core.protocols import Allow
            from {type(form).__module__} import {type(form).__qualname__} as Format
            files = LocalFiles({{name: Path(path) for name, path in {paths!r}.items()}})
            model = Format().read(files, {{}}, Allow.of({allow!r}))
            answer = getattr(model, {method!r})(pickle.loads(Path({str(pickled)!r}).read_bytes()))
            sys.stdout.buffer.write(numpy.asarray(answer).tobytes())
        """
        command = [sys.executable, "-c", textwrap.dedent(script)]
        return subprocess.run(command, capture_output=True, check=True).stdout

    return ask
