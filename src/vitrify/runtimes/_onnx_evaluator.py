"""The evaluator of the ``onnx`` package: the standard's operators in Python and NumPy, held to what a model may do.

The answers that the standard records for its operators come from it. What is not left to it:

* it takes an operator of an old version for the newest that it knows: see :mod:`._onnx_meaning`;
* its Loop joins matrices that it should stack, and need not end: here it stacks, and all that is run is counted;
* its Optional puts what it is given into a list, which nothing takes out again;
* its StringNormalizer sets the locale of the whole process, and its ImageDecoder gives bytes to any decoder that Pillow
  has, one of which starts another program;
* it hands its own constants to every operator, and out of the graph: no operator can write to them.

Source: https://onnx.ai/onnx/api/reference.html.
"""

from __future__ import annotations

import io
import locale as process_locale
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op
from onnx.reference.ops.op_image_decoder import ImageDecoder
from onnx.reference.ops.op_loop import Loop
from onnx.reference.ops.op_string_normalizer import StringNormalizer

from vitrify.core.errors import LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Mapping

    Array = np.ndarray[Any, Any]

STEPS = 10_000_000
"""Nodes that one call may run, those in the bodies of loops each time anew."""

_IMAGES = ("BMP", "JPEG", "JPEG2000", "TIFF", "PNG", "WEBP", "PPM")
"""Pillow's names of the formats that the standard lists for ImageDecoder."""

_LEFT: ContextVar[list[int]] = ContextVar("left")


class Evaluator(ReferenceEvaluator):  # type: ignore[misc]  # onnx is not type-checked
    """The evaluator, and those of the graphs and functions inside, which are of this class as well."""

    def __init__(self, *given: Any, **options: Any) -> None:
        """Load every operator; nothing is run."""
        super().__init__(*given, **options)
        for array in self.rt_inits_.values():
            array.flags.writeable = False

    def evaluate(self, names: list[str], feeds: Mapping[str, Any], *, steps: int = STEPS) -> list[Any]:
        """Return some outputs.

        Raises:
            LimitExceededError: More nodes than ``steps`` would have to be run.
        """
        token = _LEFT.set([steps])
        try:
            with np.errstate(all="ignore"):
                return list(self.run(names, dict(feeds)))
        except LimitExceededError:
            msg = f"one call runs more than {steps:,} nodes of this ONNX graph"
            raise LimitExceededError(msg, remedy="look at its loops: one of them may never end") from None
        finally:
            _LEFT.reset(token)

    def run(self, *given: Any, **options: Any) -> Any:
        """Run the nodes of this graph, body or function once."""
        left = _LEFT.get()
        left[0] -= len(self.rt_nodes_) + 1  # a body without nodes takes time, too
        if left[0] < 0:
            raise LimitExceededError("")
        return super().run(*given, **options)

    def _load_impl(self, node: onnx.NodeProto, input_types: Any = None) -> Any:
        own = OWN.get(node.op_type) if node.domain == "" else None
        if own and self.opsets[""] < own[1]:
            return own[0]
        return super()._load_impl(node, input_types)


class _Loop(Loop):  # type: ignore[misc]  # onnx is not type-checked
    """Loop, whose collected values are stacked whatever their rank, and whose body's names hide those outside."""

    def _run(self, most: Any, more: Any, *carried: Any, context: Any = None, **options: Any) -> Any:
        called = {name: options[name] for name in ("attributes", "bindings") if name in options}
        names, turn, values = self.body.input_names, 0, list(carried)
        going = more is None or bool(more)
        collected: list[list[Array]] = [[] for _ in range(self.K)]
        while going and (most is None or turn < int(most)):
            feeds = {**context, names[0]: np.array(turn, np.int64), names[1]: np.array(going)}
            going, *given = self._run_body(feeds | dict(zip(names[2:], values, strict=True)), **called)
            values, found = given[: self.N], given[self.N :]
            for one, value in zip(collected, found, strict=True):
                one.append(value)
            turn += 1
        types = self.body.output_types[1 + self.N :]
        stacked = [np.stack(one) if one else _nothing(kind) for one, kind in zip(collected, types, strict=True)]
        return self._check_and_fix_outputs((*values, *stacked))


class _StringNormalizer(StringNormalizer):  # type: ignore[misc]  # onnx is not type-checked
    """StringNormalizer in the locale that the process has; Python's upper and lower case do not ask for it."""

    def _run(self, x: Array, *, locale: Any = None, **options: Any) -> tuple[Array]:  # noqa: ARG002 (left out on purpose)
        return super()._run(x, locale=process_locale.getlocale(), **options)  # type: ignore[no-any-return]


class _ImageDecoder(ImageDecoder):  # type: ignore[misc]  # onnx is not type-checked
    """ImageDecoder of the standard's formats alone."""

    def _run(self, encoded: Array, **options: Any) -> Any:
        import PIL.Image

        PIL.Image.open(io.BytesIO(encoded.tobytes()), formats=_IMAGES)  # raises; only the header is read
        return super()._run(encoded, **options)


class _Optional(OpRun):  # type: ignore[misc]  # onnx is not type-checked
    """Optional, whose answer is what it is given or None, which is how the operators that take one know it."""

    def _run(self, x: Any = None, **options: Any) -> Any:  # noqa: ARG002 (its type says nothing that matters here)
        return (x,)

    def _check_and_fix_outputs(self, res: Any) -> Any:
        return res


class _SlopeOfChannels(OpRun):  # type: ignore[misc]  # onnx is not type-checked
    """PRelu before version 7: several slopes are those of the channels, whichever size the last axis has."""

    def _run(self, x: Array, slope: Array) -> tuple[Array]:
        if slope.size > 1:
            slope = slope.reshape(-1, *[1] * (x.ndim - 2))
        return (np.where(x > 0, x, x * slope).astype(x.dtype),)


def _aligned(name: str) -> Any:
    """Return an operator of two arrays as it was before version 7: an axis may say where the second one starts."""
    base = load_op("", name, 7)

    class Aligned(base):  # type: ignore[misc, valid-type]  # onnx is not type-checked
        def run(self, x: Array, y: Array, **options: Any) -> Any:
            axis = getattr(self, "axis", None)
            if axis is not None and y.ndim:
                y = y.reshape(*y.shape, *[1] * (x.ndim - axis - y.ndim))
            return super().run(x, y, **options)

    return Aligned


_ANY = 2**31
_OF_TWO = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
OWN = {
    "Loop": (_Loop, _ANY),
    "StringNormalizer": (_StringNormalizer, _ANY),
    "ImageDecoder": (_ImageDecoder, _ANY),
    "Optional": (_Optional, _ANY),
    "PRelu": (_SlopeOfChannels, 7),
    **{name: (_aligned(name), 7) for name in _OF_TWO},
}
"""Operators of our own, below which version of the standard."""


def _nothing(kind: onnx.TypeProto) -> Array:
    """Return what a loop without a turn has collected."""
    tensor = kind.tensor_type
    sizes = [one.dim_value for one in tensor.shape.dim]
    return np.empty([0, *sizes], onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
