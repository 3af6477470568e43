"""Where this machine's policy lies: found without reading the code that would ask it, since most machines have none."""

from __future__ import annotations

import os

from vitrify.stores import default_root

VARIABLE = "VITRIFY_POLICY"
FILE = "policy.toml"


def find() -> str | None:
    """Return the path in ``$VITRIFY_POLICY``, else of ``policy.toml`` in ``$VITRIFY_HOME`` if it is there, else None.

    Whatever lies under that name is the policy, be it a link to nowhere: what cannot be read allows nothing.

    Raises:
        StoreError: This user has no home directory.
    """
    if named := os.environ.get(VARIABLE):
        return named
    path = default_root().parent / FILE
    return str(path) if os.path.lexists(path) else None
