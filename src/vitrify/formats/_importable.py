"""Functions and classes by reference, ``module:qualname``: which can be found again, and finding them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, MissingDependencyError
from vitrify.core.report import Finding

if TYPE_CHECKING:
    from vitrify.core.protocols import Allow


def reference(code: Any) -> str:
    """Return ``module:qualname`` of a function or class."""
    return f"{code.__module__}:{code.__qualname__}"


def dotted(reference: str) -> str:
    """Return the name that an allow-list knows it by: ``module.qualname``."""
    return reference.replace(":", ".")


def problems(code: Any) -> list[Finding]:
    """List why another process could not find this function or class under its name; empty means that it can."""
    name, module = code.__qualname__, code.__module__
    in_main = module == "__main__"
    if not in_main and _is_at_home(code):
        return []
    found = []
    if in_main:
        found.append(("is defined in the main script or notebook", "move it to a module of its own and import it"))
    if name.endswith("<lambda>"):
        found.append(("is a lambda, which has no name", "give it a name: def predict(x): ..."))
    elif captured := getattr(getattr(code, "__code__", None), "co_freevars", ()):
        what = f"is a closure over {', '.join(captured)}, and no module holds those values"
        found.append((what, "make them attributes of a class, or constants of the module"))
    elif "<locals>" in name:
        found.append(("is defined inside a function", "define it at the top level of its module"))
    if not found:
        found.append((f"is not what module {module!r} has under that name", "save what the name leads to"))
    return [Finding(place=f"{module}.{name}", message=message, remedy=remedy) for message, remedy in found]


def resolve(reference: str, allow: Allow, *, what: str) -> Any:
    """Import what a reference leads to, if it is allowed.

    Args:
        reference: ``module:qualname``.
        allow: What the user trusts; nothing is imported before it was asked.
        what: What needs it, for the error message.

    Raises:
        UntrustedCodeError: The name is not allowed.
        MalformedError: It is no such reference.
        MissingDependencyError: There is no such module, or no such name in it.
    """
    module, _, name = reference.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        msg = f"{what}: {reference!r} is no reference of the form module:name"
        raise MalformedError(msg)
    allow.require([dotted(reference)], what=what)
    try:
        return _find(module, name)
    except (ImportError, AttributeError) as error:
        msg = f"{what} needs {dotted(reference)}, which cannot be imported here ({error})"
        raise MissingDependencyError(msg, remedy=f"install what brings the module {module!r}") from error


def _find(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _is_at_home(code: Any) -> bool:
    try:
        return _find(code.__module__, code.__qualname__) is code
    except (ImportError, AttributeError):
        return False
