"""What a writer of pickles says of the file that it has just written: judged as a stranger's would be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vitrify.core.errors import UnsupportedModelError
from vitrify.core.protocols import Written

if TYPE_CHECKING:
    from vitrify.pickles.machine import Audit


def written(found: Audit) -> Written:
    """Return the entry, the names that reading will need, and the warning.

    Raises:
        UnsupportedModelError: It could not be read without running what is in it.
    """
    if problems := [one for one in found.findings if one.rule != "untrusted-global"]:
        msg = "this pickle would do what cannot be allowed by name"
        remedy = "move nested classes, functions and methods to the top level of a module"
        raise UnsupportedModelError(msg, problems=problems, remedy=remedy)
    notes = ("a pickle: most programs that load it run whatever it names",)
    return Written(entry={"code": bool(found.untrusted)}, names=found.untrusted, notes=notes)
