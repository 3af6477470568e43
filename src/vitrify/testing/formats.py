"""What every format must do: subclass these in your plugin's tests.

:class:`FileConformance` is for every format, :class:`FormatConformance` for those that are ``Live`` as well::

    class TestMyFiles(FileConformance):
        format = MyFormat()
        samples = {"small": write_a_small_file}  # into an empty folder; returns the path


    class TestMyFormat(FormatConformance):
        format = MyFormat()

        def model(self):
            return MyModel([1.0, 2.0])

        def same(self, left, right):
            return left.weights == right.weights
"""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from vitrify.core.errors import UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow, Drawn, Holds
from vitrify.inspection.identify import files_at
from vitrify.reading.files import LocalFiles, only
from vitrify.testing import words
from vitrify.testing.directory import DirectorySink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vitrify.core.protocols import Example, Files, Format, Live, Written

_FLIPS = 12
_OTHERS = (b"", b"\x00" * 64, b"not a model of any kind\n")


class FileConformance:
    """The promises of :class:`vitrify.core.protocols.Format`, as tests over files that honest tools wrote.

    Attributes:
        format: The plugin.
        samples: By name, what writes a file or a folder into an empty folder and returns its path.
        found: Names of samples that ``hazards`` has to say something about; it says nothing about the others.
    """

    format: ClassVar[Format]
    samples: ClassVar[dict[str, Callable[[Path], Path]]]
    found: ClassVar[frozenset[str]] = frozenset()

    def test_a_sample_is_recognised_whatever_it_is_called_and_other_content_is_not(self, tmp_path: Path) -> None:
        """By content, not by name."""
        for path in self._made(tmp_path).values():
            assert self.format.detect(files_at(path)), path
            if path.is_file():
                assert self.format.detect(LocalFiles({"renamed": path})), path
        other = tmp_path / "other"
        for content in _OTHERS:
            other.write_bytes(content)
            assert not self.format.detect(LocalFiles({"other": other}))
        assert not self.format.detect(LocalFiles({}))

    def test_a_sample_is_described_in_the_common_words(self, tmp_path: Path) -> None:
        """So that one page can show all formats."""
        for path in self._made(tmp_path).values():
            words.check(self.format.describe(*_opened(path)))

    def test_an_honest_sample_has_no_findings(self, tmp_path: Path) -> None:
        """A warning about every file is none."""
        for name, path in self._made(tmp_path).items():
            findings = list(self.format.hazards(*_opened(path)))
            assert bool(findings) is (name in self.found), (name, findings)

    def test_a_damaged_sample_gives_typed_errors(self, tmp_path: Path) -> None:
        """Cut off or with bits flipped: never a crash or another exception."""
        for name, path in self._made(tmp_path).items():
            every = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
            for file in every:
                content = file.read_bytes()
                for damaged in _damaged(content, random.Random(name)):  # noqa: S311 (damage, not a secret)
                    file.write_bytes(damaged)
                    self._look(*_opened(path))
                file.write_bytes(content)

    def _made(self, folder: Path) -> dict[str, Path]:
        made = {}
        for number, (name, make) in enumerate(self.samples.items()):
            home = folder / str(number)
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            made[name] = make(home)
        return made

    def _look(self, files: Files, entry: dict[str, Any]) -> None:
        if not self.format.detect(files):
            return
        looks: list[Callable[[], Any]] = [
            lambda: self.format.describe(files, entry),
            lambda: list(self.format.hazards(files, entry)),
        ]
        if isinstance(drawn := self.format, Drawn):
            looks.append(lambda: drawn.graph(files, entry))
        if isinstance(holder := self.format, Holds):
            looks.append(lambda: list(holder.parts(files, entry)))
        for look in looks:
            try:
                look()
            except VitrifyError:
                continue


def _opened(path: Path) -> tuple[Files, dict[str, Any]]:
    files = files_at(path)
    name = only(files)
    return files, {} if name is None else {"file": name}


def _damaged(content: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield truncations and bit flips of some bytes."""
    for end in sorted({0, 1, len(content) // 3, len(content) - 1} & set(range(len(content)))):
        yield content[:end]
    for _ in range(_FLIPS if content else 0):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


class FormatConformance:
    """The promises of :class:`vitrify.core.protocols.Live`, as tests.

    Attributes:
        format: The plugin.
        canonical: Whether a model that was read is written to the same bytes again. Say no, with the reason, where
            the library's own writer does not.
    """

    format: ClassVar[Live]
    canonical: ClassVar[bool] = True

    def model(self) -> Any:
        """Return a live model; called again, an equal one."""
        raise NotImplementedError

    def same(self, left: Any, right: Any) -> bool:
        """Say whether two models predict the same, to the bit."""
        raise NotImplementedError

    def example(self) -> Example | None:
        """Return an example, for a format that needs one to write."""
        return None

    def test_a_model_comes_back_as_it_was(self, tmp_path: Path) -> None:
        """Write, then read."""
        sink, written = self._write(self.model(), tmp_path / "a")
        assert self.same(self.format.read(sink.files(), written.entry, Allow.of(written.names)), self.model())

    def test_the_same_model_gives_the_same_bytes(self, tmp_path: Path) -> None:
        """No clock, no host, no address in memory."""
        model = self.model()
        first, _ = self._write(model, tmp_path / "a")
        second, _ = self._write(model, tmp_path / "b")
        assert first.contents() == second.contents()

    def test_a_model_that_was_read_is_written_as_it_was(self, tmp_path: Path) -> None:
        """Nothing is added or lost on the way."""
        if not self.canonical:
            pytest.skip("the library's own writer has no canonical form")
        first, written = self._write(self.model(), tmp_path / "a")
        loaded = self.format.read(first.files(), written.entry, Allow.of(written.names))
        second, again = self._write(loaded, tmp_path / "b")
        assert (first.contents(), written.entry, written.names) == (second.contents(), again.entry, again.names)

    def test_its_own_file_is_recognised_whatever_it_is_called_and_others_are_not(self, tmp_path: Path) -> None:
        """By content, not by name."""
        sink, _ = self._write(self.model(), tmp_path / "a")
        renamed = [LocalFiles({"renamed": path}) for path in sink.paths.values()]
        assert any(self.format.detect(files) for files in (sink.files(), *renamed))
        other = tmp_path / "other"
        for content in _OTHERS:
            other.write_bytes(content)
            assert not self.format.detect(LocalFiles({"other": other}))
        assert not self.format.detect(LocalFiles({}))

    def test_the_description_and_the_entry_are_json(self, tmp_path: Path) -> None:
        """So that they can be kept and shown."""
        sink, written = self._write(self.model(), tmp_path / "a")
        assert json.loads(json.dumps(written.entry)) == written.entry
        words.check(self.format.describe(sink.files(), written.entry))

    def test_code_that_was_not_allowed_does_not_run(self, tmp_path: Path) -> None:
        """Every name that the writer reported is required by the reader."""
        sink, written = self._write(self.model(), tmp_path / "a")
        if written.names:
            with pytest.raises(UntrustedCodeError) as caught:
                self.format.read(sink.files(), written.entry, Allow())
            assert set(caught.value.names) == set(written.names)

    def test_a_truncated_file_is_a_typed_error(self, tmp_path: Path) -> None:
        """Never a crash, never a partial model; only what means nothing, such as a last line end, may be missing."""
        sink, written = self._write(self.model(), tmp_path / "a")
        for name, path in sink.paths.items():
            whole = path.read_bytes()
            for end in sorted({0, 1, len(whole) // 3, len(whole) - 1} - {len(whole)}):
                path.write_bytes(whole[:end])
                try:
                    read = self.format.read(LocalFiles(sink.paths), written.entry, Allow.of(written.names))
                except VitrifyError:
                    continue
                assert end == len(whole) - 1, f"{name}: {end} of {len(whole)} bytes were taken for a model"
                assert self.same(read, self.model())
            path.write_bytes(whole)

    def _write(self, model: Any, folder: Path) -> tuple[DirectorySink, Written]:
        folder.mkdir()
        sink = DirectorySink(folder)
        return sink, self.format.write(model, sink, self.example())
