"""Python's own pickles as they come: of older releases too, and with boosters in them."""

from __future__ import annotations

from vitrify.formats._boosters.pickled import CHECKS
from vitrify.pickles.older import Older


class Plain(Older):
    """A pickle of Python's own; native models in it are checked before their libraries parse them."""

    checks = CHECKS
