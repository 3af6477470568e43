"""TensorFlow, imported without the lines that its native code writes to the screen meanwhile.

Every module that needs it takes it from here, so that none imports it first and aloud.
"""

from __future__ import annotations

from vitrify.formats._tensorflow.quiet import mute

with mute():
    import tensorflow as tf
    from tensorflow.core.protobuf import saved_model_pb2

__all__ = ["saved_model_pb2", "tf"]
