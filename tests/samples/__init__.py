"""Samples: for each format, files that honest tools write, made here or taken from a package.

Each module of this folder has a ``SAMPLES``: a name (``format`` or ``format/variant``, the format as the catalog calls
it) and a function that makes the file or the directory inside an empty folder and returns its path.
"""

import importlib
import pkgutil


def samples():
    """Return all of them, by name."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for name, make in importlib.import_module(f"samples.{module.name}").SAMPLES.items():
            assert name not in found, name
            found[name] = make
    return found
