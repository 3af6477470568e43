"""Python source that travels with a model: found when it is saved, imported from verified bytes when it is loaded.

A class of the user's own lies in some module that production does not have. Its source, and that of every
module of the user's that it imports, is copied into the artifact. When the artifact is loaded and the user has
allowed the names, those modules are imported from the artifact's bytes; no directory is put on ``sys.path``.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from vitrify.core.document import Code
    from vitrify.core.protocols import Files

FOLDER = "code"
"""Where bundled modules lie inside an artifact."""

_INSTALLED = tuple({sysconfig.get_path(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")})


def bundle(names: Iterable[str]) -> dict[str, Path]:
    """Find the source files of the modules that define ``names``, and of all that they import of the user's.

    Args:
        names: Exact dotted names of classes and functions that this process has imported.

    Returns:
        Module name to source file, sorted. Modules of installed distributions are not in it: the environment
        names those.

    Raises:
        UnsupportedModelError: A name is defined in ``__main__``, or its module has no source; all are listed.
    """
    problems: list[Finding] = []
    found: dict[str, Path] = {}
    for name in sorted(set(names)):
        module = _defining_module(name)
        if module is None or module == "__main__":
            where = "the main script or notebook" if module else "no module that is imported here"
            problems.append(
                Finding(place=name, message=f"is defined in {where}", remedy="move it to a module of its own")
            )
        elif not _is_installed(module):
            _add(module, found, problems)
    if problems:
        msg = "code that the model needs cannot be bundled"
        raise UnsupportedModelError(msg, problems=problems)
    return dict(sorted(found.items()))


def install(code: Code, files: Files) -> None:
    """Make the bundled modules importable, from their verified bytes.

    Raises:
        UsageError: A module of that name, but with other source, is already imported in this process.
    """
    sources = {module: files.read(path) for module, path in code.modules.items()}
    for module, source in sources.items():
        _refuse_conflict(module, source)
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.sources.update(sources)
    finder.packages.update(module for module, path in code.modules.items() if path.endswith("/__init__.py"))


def artifact_path(module: str, source: Path) -> str:
    """Return where a module lies inside an artifact."""
    base = f"{FOLDER}/{module.replace('.', '/')}"
    return f"{base}/__init__.py" if source.name == "__init__.py" else f"{base}.py"


def _defining_module(name: str) -> str | None:
    """Return the longest prefix of a dotted name that is an imported module."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if (module := ".".join(parts[:end])) in sys.modules:
            return module
    return None


def _is_installed(module: str) -> bool:
    """Whether a module is built in or lies in the standard library's or the distributions' directories."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "vitrify":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or any(Path(file).is_relative_to(folder) for folder in _INSTALLED)


def _add(module: str, found: dict[str, Path], problems: list[Finding]) -> None:
    if module in found or module not in sys.modules or _is_installed(module):
        return
    file = Path(str(sys.modules[module].__file__))
    if file.suffix != ".py":
        problems.append(Finding(place=module, message=f"has no Python source ({file.name})", remedy="install it"))
        return
    found[module] = file
    parents = module.split(".")
    for end in range(1, len(parents)):
        _add(".".join(parents[:end]), found, problems)
    for imported in _imports(module, file):
        _add(imported, found, problems)


def _imports(module: str, file: Path) -> Iterator[str]:
    """Yield every module name that the source may import, packages and members alike."""
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            try:
                base = importlib.util.resolve_name(relative, package) if node.level else relative
            except ImportError:  # beyond its top package: what runs it catches this error, or it does not run
                continue
            yield from _prefixes(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _refuse_conflict(module: str, source: bytes) -> None:
    loaded = sys.modules.get(module)
    if loaded is None:
        return
    loader = getattr(loaded, "__loader__", None)
    file = getattr(loaded, "__file__", None)
    present = loader.source if isinstance(loader, _Loader) else Path(file).read_bytes() if file else b""
    if present != source:
        msg = f"module {module!r} is already imported here with other source than the artifact's ({file or 'built in'})"
        raise UsageError(msg, remedy="load the artifact in a process of its own")


class _Finder(importlib.abc.MetaPathFinder):
    """Finds bundled modules; everything else is left to the finders after it."""

    def __init__(self) -> None:
        self.sources: dict[str, bytes] = {}
        self.packages: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname not in self.sources:
            return None
        loader = _Loader(fullname, self.sources)
        return importlib.util.spec_from_loader(fullname, loader, is_package=fullname in self.packages)


class _Loader(importlib.abc.InspectLoader):
    """Loads one bundled module."""

    def __init__(self, name: str, sources: Mapping[str, bytes]) -> None:
        self.source = sources[name]
        self._name = name

    def get_source(self, fullname: str) -> str:
        del fullname
        return importlib.util.decode_source(self.source)

    def is_package(self, fullname: str) -> bool:
        finder = next(finder for finder in sys.meta_path if isinstance(finder, _Finder))
        return fullname in finder.packages
