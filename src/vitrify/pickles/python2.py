"""Names of Python 2, as pickles of protocols 0 to 2 may have them, and what they are called since Python 3.

Source: CPython ``Lib/_compat_pickle.py``, which its unpickler applies to the same protocols.
"""

from __future__ import annotations


def python3(module: str, name: str) -> tuple[str, str]:
    """Return today's module and name; those that were never renamed are returned as they are."""
    import _compat_pickle as moved

    if (module, name) in moved.NAME_MAPPING:
        return moved.NAME_MAPPING[module, name]
    return moved.IMPORT_MAPPING.get(module, module), name
