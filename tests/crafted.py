"""Values that are pickled as something else: what a hostile pickle holds, without its opcodes written by hand."""

from __future__ import annotations

import copyreg


class Crafted:
    """Pickled as whatever it is told."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


class Object:
    """Pickled as an instance of a class with a state, past its constructor."""

    def __init__(self, cls, state=None):
        self.reduced = copyreg.__newobj__, (cls,), state

    @property
    def __class__(self):
        """The pickler makes sure that an object is made by its own class."""
        return self.reduced[1][0]

    def __reduce_ex__(self, protocol):
        return self.reduced
