"""Other people's layouts of a model, in and out.

>>> export(open_artifact("churn"), Path("churn-mlflow"), "mlflow")      # doctest: +SKIP
>>> import_("churn-mlflow", "churn-back")                               # doctest: +SKIP
>>> import_("hf://org/name@v1.0", "theirs", example=rows)               # doctest: +SKIP

``mlflow`` is a directory that MLflow loads; ``hugging-face`` a repository with its card; ``kitops`` a ModelKit in an
OCI layout; ``directory`` the plain files, for tools that sign or copy files. An import looks at what is there and knows
which of these it is. Nothing is downloaded, nothing that comes along runs, and nothing half-written is seen.

``triton``, ``tensorflow-serving``, ``torchserve`` and ``ray-serve`` are what those servers load; ``kubernetes`` and
``kserve`` are manifests that serve the artifact by its digest. They go out only.

:mod:`vitrify.package.gto` keeps versions and stages as git tags.
"""

from __future__ import annotations

import importlib
import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.artifacts.artifact import Artifact
    from vitrify.stores.oci_layout import OciLayout

LAYOUTS = {
    "mlflow": "vitrify.package.mlflow",
    "hugging-face": "vitrify.package.hugging_face",
    "kitops": "vitrify.package.kitops",
    "directory": "vitrify.package.directory",
    "triton": "vitrify.package.triton",
    "tensorflow-serving": "vitrify.package.tensorflow_serving",
    "torchserve": "vitrify.package.torchserve",
    "ray-serve": "vitrify.package.ray_serve",
    "kubernetes": "vitrify.package.kubernetes",
    "kserve": "vitrify.package.kserve",
}
"""The layouts that can be written, and the module of each."""


def export(artifact: Artifact, folder: Path, layout: str, **options: Any) -> None:
    """Write an artifact in another layout.

    Args:
        artifact: The artifact.
        folder: The directory to make; it must not be there yet, or be empty.
        layout: One of ``LAYOUTS``.
        options: Those of the layout's own ``export``: ``card`` for ``hugging-face``, ``image`` for ``kubernetes``.

    Raises:
        UsageError: There is no such layout, or it has no such option, or something is there already.
        UnsupportedModelError: The layout cannot hold this artifact.
        CorruptError: A byte of it is not what its digest promises.
        StoreError: The disk would not take it; nothing is left behind.
    """
    if layout not in LAYOUTS:
        msg = f"no layout is called {layout!r} (there are: {', '.join(LAYOUTS)})"
        raise UsageError(msg)
    write = importlib.import_module(LAYOUTS[layout]).export
    _, _, *known = inspect.signature(write).parameters
    if unknown := sorted(options.keys() - set(known)):
        msg = f"the layout {layout} has no option {', '.join(unknown)} (it has: {', '.join(known) or 'none'})"
        raise UsageError(msg, remedy="leave it out")
    write(artifact, folder, **options)


def import_(
    source: str | Path,
    name: str | None = None,
    *,
    example: Any = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Take a model in whatever layout it comes into the store.

    Args:
        source: A directory, an archive, or ``hf://org/name@revision`` in the cache on this machine.
        name: ``name`` or ``name:tag``; an artifact of ours keeps the name it has, if this is None.
        example: What the model is called with, where the layout holds no example.
        allow: Exact names of what the scan found and you trust.
        store: Where to; by default the user's store.

    Raises:
        UsageError: There is no such file, or it holds several models.
        UnsupportedModelError: No format knows it.
        MalformedError: It is not what its layout allows.
        CorruptError: A byte is not what its digest promises.
        CheckFailedError: The scan found something that is not a matter of names.
        UntrustedCodeError: It needs a name that is not in ``allow``.
    """
    from vitrify.package import hugging_face

    options = {"example": example, "allow": allow, "store": store}
    if isinstance(source, str) and source.startswith(hugging_face.SCHEME):
        return hugging_face.import_(source, name, **options)
    path = Path(source)
    if not os.path.lexists(path):
        msg = f"there is no {path}"
        raise UsageError(msg, remedy="name a directory, an archive, or hf://org/name")
    if (ours := _ours(path, name, store)) is not None:
        return ours
    return _module(path).import_(path, name, **options)  # type: ignore[no-any-return]  # each gives an artifact


def _module(path: Path) -> Any:
    """Return the module that reads what lies there: asked of the files that each layout must have."""
    from vitrify.package import hugging_face, kitops, mlflow

    if not path.is_dir() or any((path / name).is_file() for name in ("oci-layout", "Kitfile")):
        return kitops
    return mlflow if (path / mlflow.FILE).is_file() and not _has_manifest(path) else hugging_face


def _has_manifest(path: Path) -> bool:
    from vitrify.package.directory import MANIFEST

    return (path / MANIFEST).is_file()


def _ours(path: Path, name: str | None, store: OciLayout | None) -> Artifact | None:
    """Take an archive or a layout of ours, with what is attested about the artifact; None for what is none."""
    from vitrify import stores
    from vitrify.artifacts.artifact import Artifact
    from vitrify.core import reference
    from vitrify.package._carry import carried

    if path.is_dir() and not (path / "oci-layout").is_file():
        return None
    where = store or stores.default_store()
    tag = reference.name(name) if name else None
    digest = carried(path, tag, where)
    return None if digest is None else Artifact.of(where, digest, tag)
