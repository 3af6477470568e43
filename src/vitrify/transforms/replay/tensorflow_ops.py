"""ONNX's operators on TensorFlow, by family; text and double precision are at home there.

* ``_tensorflow_math``: element by element; ``_tensorflow_shape``: shapes, indices, order; ``_tensorflow_sum``:
  reductions, products, normalisations; ``_tensorflow_conv``: convolutions and pooling; ``_tensorflow_image``: resizing;
* ``_tensorflow_flow``: branches, loops, recurrent layers; ``_tensorflow_ml``: forests and encoders.

What TFLite has no operator for is avoided where another exact way exists, so that the road goes on to there.
"""

from __future__ import annotations

from vitrify.transforms.replay import (
    _tensorflow_conv,
    _tensorflow_flow,
    _tensorflow_image,
    _tensorflow_math,
    _tensorflow_ml,
    _tensorflow_shape,
    _tensorflow_sum,
)
from vitrify.transforms.replay._tensorflow_base import ops

__all__ = ["ops"]

FAMILIES = (
    _tensorflow_conv,
    _tensorflow_flow,
    _tensorflow_image,
    _tensorflow_math,
    _tensorflow_ml,
    _tensorflow_shape,
    _tensorflow_sum,
)
"""Each registers its operators when it is imported."""
