"""A sink over a plain directory, and the files written to it: what a store gives, without the store."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from vitrify.core.protocols import Allow
from vitrify.testing.directory import DirectorySink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vitrify.core.protocols import Format, Written
    from vitrify.reading.files import LocalFiles


class FilesAndSink:
    """``sink`` to write to, ``files()`` to read what was written."""

    def __init__(self, root: Path) -> None:
        self.sink = DirectorySink(root)

    def put(self, name: str, data: bytes) -> None:
        with self.sink.open(name, "weight") as stream:
            stream.write(data)

    def files(self) -> LocalFiles:
        return self.sink.files()


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
            from vitrify.reading.files import LocalFiles
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


@pytest.fixture
def same_bytes() -> Callable[..., None]:
    """Assert that writing a booster twice, and writing what was read, give the same bytes."""

    def check(model: Any, rows: Any, form: Format, saved: Callable[..., tuple[Written, LocalFiles, Any]]) -> None:
        _, first, loaded = saved(form, model)
        model.predict(rows)
        _, second, _ = saved(form, model)
        _, third, _ = saved(form, loaded)
        assert first.names() == second.names() == third.names()
        assert all(first.read(name) == second.read(name) == third.read(name) for name in first.names())

    return check
