"""What every container must do: subclass :class:`ContainerConformance` in your plugin's tests.

::

    class TestMyContainer(ContainerConformance):
        container = MyContainer()
        examples = (my_frame(), my_other_frame())
        empty = my_frame_without_rows()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from vitrify import containers
from vitrify.core.signature import BATCH, Field, Signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vitrify.core.protocols import Arrays, Container


class ContainerConformance:
    """The promises of :class:`vitrify.core.protocols.Container`, as tests.

    Attributes:
        container: The plugin.
        examples: Data that it handles, each with at least two rows.
        empty: Data without rows, whose fields are those of the first example.
    """

    container: ClassVar[Container]
    examples: ClassVar[Sequence[Any]]
    empty: ClassVar[Any]

    def test_fields_have_unique_names_and_survive_as_json(self) -> None:
        """A signature of the fields is written and read again without loss."""
        for example in self.examples:
            signature = Signature(inputs=self.container.fields(example), container="third-party")
            assert signature.inputs
            assert Signature.from_json(signature.to_json(), where="signature") == signature

    def test_every_field_gets_an_array_that_fits_it(self) -> None:
        """The example's own arrays conform to its own fields, and share one batch."""
        for example in self.examples:
            fields, arrays = self._read(example)
            assert [field.name for field in fields] == list(arrays)
            assert containers.rows(arrays, fields) is not None

    def test_native_data_and_arrays_are_the_same_thing_twice(self) -> None:
        """Arrays to native data to arrays changes nothing."""
        for example in self.examples:
            fields, arrays = self._read(example)
            native = self.container.from_arrays(arrays, fields)
            assert type(native) is type(example)
            same_arrays(containers.conform(self.container.to_arrays(native, fields), fields), arrays)
            assert self.container.fields(native) == fields

    def test_the_model_gets_data_of_its_own(self) -> None:
        """Nothing that is done to the native data reaches the arrays."""
        for example in self.examples:
            fields, arrays = self._read(example)
            before = {name: array.copy() for name, array in arrays.items()}
            native = self.container.to_arrays(self.container.from_arrays(arrays, fields), fields)
            for array in native.values():
                if array.flags.writeable and array.dtype.kind in "biuf":
                    np.ma.getdata(array)[...] = 0
            same_arrays(arrays, before)

    def test_rows_can_be_taken(self) -> None:
        """Some rows of the arrays are the same rows of the native data, in another order too."""
        for example in self.examples:
            fields, arrays = self._read(example)
            some = containers.take(arrays, fields, [1, 0])
            native = self.container.from_arrays(some, fields)
            same_arrays(containers.conform(self.container.to_arrays(native, fields), fields), some)

    def test_no_rows_are_data_like_any_other(self) -> None:
        """Data without rows gives arrays without rows that fit the fields."""
        fields = self.container.fields(self.examples[0])
        arrays = containers.conform(self.container.to_arrays(self.empty, fields), fields)
        assert containers.rows(arrays, fields) == 0

    def _read(self, example: Any) -> tuple[tuple[Field, ...], Arrays]:
        fields = self.container.fields(example)
        assert any(field.shape[:1] == (BATCH,) for field in fields)
        return fields, containers.conform(self.container.to_arrays(example, fields), fields)


def same_arrays(left: Arrays, right: Arrays) -> None:
    """Assert that two sets of arrays are equal in names, types, missing values and bits; None is not NaN."""
    assert list(left) == list(right)
    for name, array in left.items():
        other = right[name]
        assert (array.dtype, array.shape) == (other.dtype, other.shape), name
        np.testing.assert_array_equal(np.ma.getmaskarray(array), np.ma.getmaskarray(other), err_msg=name)
        for one, two in zip(array.ravel().tolist(), other.ravel().tolist(), strict=True):
            assert type(one) is type(two), name
            assert one == two or (one != one and two != two), name  # noqa: PLR0124 (NaN is the only value unequal to itself)
