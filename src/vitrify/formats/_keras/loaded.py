"""Keras on the backend that it is set to, imported without the lines that TensorFlow writes to the screen meanwhile."""

from __future__ import annotations

from vitrify.formats._tensorflow.quiet import mute

with mute():
    import keras

__all__ = ["keras"]
