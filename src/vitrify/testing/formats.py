"""What every format must do: subclass :class:`FormatConformance` in your plugin's tests.

::

    class TestMyFormat(FormatConformance):
        format = MyFormat()

        def model(self):
            return MyModel([1.0, 2.0])

        def same(self, left, right):
            return left.weights == right.weights
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from vitrify.core.errors import UntrustedCodeError, VitrifyError
from vitrify.core.protocols import Allow
from vitrify.reading.files import LocalFiles
from vitrify.testing.directory import DirectorySink

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.protocols import Example, Live, Written


class FormatConformance:
    """The promises of :class:`vitrify.core.protocols.Format`, as tests.

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
        for content in (b"", b"\x00" * 64, b"not a model of any kind\n"):
            other.write_bytes(content)
            assert not self.format.detect(LocalFiles({"other": other}))
        assert not self.format.detect(LocalFiles({}))

    def test_the_description_and_the_entry_are_json(self, tmp_path: Path) -> None:
        """So that they can be kept and shown."""
        sink, written = self._write(self.model(), tmp_path / "a")
        assert json.loads(json.dumps(written.entry)) == written.entry
        assert json.loads(json.dumps(self.format.describe(sink.files(), written.entry)))

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
