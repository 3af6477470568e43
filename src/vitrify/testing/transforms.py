"""What every transform must do: subclass :class:`TransformConformance` in your plugin's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pytest

import vitrify
from vitrify.core.catalog import catalog
from vitrify.core.errors import UnsupportedModelError
from vitrify.core.plan import Step
from vitrify.stores.oci_layout import OciLayout
from vitrify.testing.directory import DirectorySink

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Transform


class TransformConformance:
    """The promises of :class:`vitrify.core.protocols.Transform`, as tests.

    Attributes:
        name: The transform's name in the catalog.
    """

    name: ClassVar[str]
    _saved: ClassVar[dict[type, Artifact]] = {}

    def model(self) -> Any:
        """Return a live model that it can do."""
        raise NotImplementedError

    def example(self) -> Any:
        """Return what the model is called with."""
        raise NotImplementedError

    def impossible(self) -> Any:
        """Return a live model with at least two parts that it cannot do, or None where there is no such model."""
        return None

    @pytest.fixture
    def saved(self, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
        """Return the model, saved once for all tests of the class, in a store of their own."""
        if type(self) not in self._saved:
            store = OciLayout(tmp_path_factory.mktemp("source"))
            self._saved[type(self)] = vitrify.save(self.model(), "source", example=self.example(), store=store)
        return self._saved[type(self)]

    def test_the_result_is_proven(self, saved: Artifact) -> None:
        """Through the whole flow: save, convert, parity."""
        result = vitrify.convert(saved, to=self._step().target)
        assert result.document.format == self._step().target
        assert result.document.lineage is not None
        assert result.document.lineage["source"] == str(saved.digest)

    def test_the_same_source_gives_the_same_bytes(self, saved: Artifact, tmp_path: Path) -> None:
        """No clock, no host, no address in memory, no order of a set."""
        subject = saved.subject()
        contents = []
        for label in ("a", "b"):
            (tmp_path / label).mkdir()
            sink = DirectorySink(tmp_path / label)
            self._transform().apply(subject, self._step(), sink)
            contents.append(sink.contents())
        assert contents[0] == contents[1]

    def test_what_it_can_do_has_no_problems(self, saved: Artifact) -> None:
        """An empty list is a promise."""
        assert self._transform().problems(saved.subject(), self._step()) == ()

    def test_what_it_cannot_do_is_listed_at_once_with_a_remedy(self) -> None:
        """And nothing is made."""
        if (model := self.impossible()) is None:
            pytest.skip("every model of this kind can be done")
        vitrify.save(model, "source", example=self.example())
        with pytest.raises(UnsupportedModelError) as caught:
            vitrify.convert("source", to=self._step().target)
        assert len(caught.value.problems) > 1
        assert all(problem.place and problem.message and problem.remedy for problem in caught.value.problems)

    def _transform(self) -> Transform:
        transform: Transform = catalog().load("transform", self.name)
        return transform

    def _step(self) -> Step:
        row = catalog().row("transform", self.name)
        assert row.source is not None
        assert row.destination is not None
        options = {"precision": "source"}
        return Step(
            transform=row.name, source=row.source, target=row.destination, fidelity=row.fidelity, options=options
        )
