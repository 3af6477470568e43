"""The library's functions, a file a family; each file's ``LIBRARY`` has them by the names that documents use.

``base`` is what they are made of. To add one, write it in the file of its family::

    @LIBRARY.plain("a.mean", "[double] -> double")
    def _mean(a): ...

Source: https://dmg.org/pfa/docs/library/
"""

from __future__ import annotations

from vitrify.runtimes._pfa.library import (
    arithmetic,
    arrays,
    casts,
    linear,
    maps,
    mathematics,
    models,
    ranking,
    statistics,
    text,
    trees,
)

__all__ = ["LIBRARY"]

LIBRARY = {
    name: function
    for family in (arithmetic, mathematics, arrays, ranking, maps, text, casts, linear, models, trees, statistics)
    for name, function in family.LIBRARY.items()
}
"""Every function by its name."""
