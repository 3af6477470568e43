"""What every runtime must do: subclass :class:`RuntimeConformance` in your plugin's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from vitrify import containers
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import SignatureError
from vitrify.core.protocols import Allow, Session
from vitrify.testing.directory import DirectorySink

if TYPE_CHECKING:
    from pathlib import Path

    from vitrify.core.protocols import Arrays, Files, Live, Runtime


class RuntimeConformance:
    """The promises of :class:`vitrify.core.protocols.Runtime` and its sessions, as tests.

    Attributes:
        runtime: The plugin.
        format: A format whose files it opens.
    """

    runtime: ClassVar[Runtime]
    format: ClassVar[Live]

    def model(self) -> Any:
        """Return a live model."""
        raise NotImplementedError

    def example(self) -> Any:
        """Return what it is called with: at least two rows, in any container."""
        raise NotImplementedError

    def test_an_opened_model_predicts_what_the_live_one_does(self, tmp_path: Path) -> None:
        """To the bit."""
        live, files, document, inputs = self._prepared(tmp_path)
        same_outputs(self.runtime.open(files, document, Allow.of(document.code.names)).run(inputs), live.run(inputs))

    def test_a_session_satisfies_the_protocol(self, tmp_path: Path) -> None:
        """All of it."""
        live, *_ = self._prepared(tmp_path)
        assert isinstance(live, Session)
        live.close()

    def test_outputs_fit_their_fields(self, tmp_path: Path) -> None:
        """Names in order, and the element types that were described."""
        live, _, document, inputs = self._prepared(tmp_path)
        assert document.signature is not None
        outputs = live.run(inputs)
        assert list(outputs) == [field.name for field in document.signature.outputs]
        for field in document.signature.outputs:
            assert len(field.shape) == outputs[field.name].ndim

    def test_zero_rows_give_zero_rows_of_the_same_kind(self, tmp_path: Path) -> None:
        """Without asking the model."""
        live, _, document, inputs = self._prepared(tmp_path)
        assert document.signature is not None
        none = containers.take(inputs, document.signature.inputs, slice(0, 0))
        for name, array in live.run(inputs).items():
            empty = live.run(none)[name]
            assert (empty.shape, empty.dtype) == ((0, *array.shape[1:]), array.dtype)

    def test_rows_do_not_depend_on_their_neighbours(self, tmp_path: Path) -> None:
        """One row at a time gives what all at once give, but for the order of additions."""
        live, _, document, inputs = self._prepared(tmp_path)
        assert document.signature is not None
        whole = live.run(inputs)
        one = live.run(containers.take(inputs, document.signature.inputs, slice(1, 2)))
        for name, array in whole.items():
            if array.dtype.kind in "fc":
                np.testing.assert_allclose(one[name], array[1:2], rtol=1e-5)
            else:
                assert one[name].tolist() == array[1:2].tolist()

    def test_a_missing_input_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        """Before the model is asked."""
        live, _, document, inputs = self._prepared(tmp_path)
        assert document.signature is not None
        first = document.signature.inputs[0].name
        with pytest.raises(SignatureError, match=first):
            live.run({name: array for name, array in inputs.items() if name != first})

    def _prepared(self, folder: Path) -> tuple[Session, Files, Document, Arrays]:
        example, model, sink = containers.example(self.example()), self.model(), DirectorySink(folder)
        written = self.format.write(model, sink, example)
        entry = {**written.entry, **self.runtime.entry(model, example)}
        document = Document(schema=SCHEMA, format="", runtime="", entry=entry, signature=example.signature)
        document = document.replace(code=document.code.replace(names=written.names))
        outputs = self.runtime.wrap(model, document).run(example.arrays)
        fields = self.runtime.describe_outputs(model, outputs, entry)
        document = document.replace(signature=example.signature.replace(outputs=fields), format=self._format_name())
        document = Document.from_json(document.to_json(), where="as a store keeps it: maps have no order")
        return self.runtime.wrap(model, document), sink.files(), document, example.arrays

    def _format_name(self) -> str:
        from vitrify.core.catalog import catalog

        target = f"{type(self.format).__module__}:{type(self.format).__qualname__}"
        return next((row.name for row in catalog().rows("format") if row.target == target), "third-party")


def same_outputs(left: Arrays, right: Arrays) -> None:
    """Assert that two sets of outputs are the same to the bit."""
    assert list(left) == list(right)
    for name, array in left.items():
        assert array.dtype == right[name].dtype
        np.testing.assert_array_equal(array, right[name])
