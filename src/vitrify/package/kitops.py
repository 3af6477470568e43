"""KitOps ModelKits, and ModelPack artifacts of other tools: OCI layouts that the field's tools push and unpack.

Writing. A layout with one ModelKit: the Kitfile as JSON is its configuration, and each file is a layer, an uncompressed
tar with its whole path and nothing of this machine's clock or users, so that the same artifact gives the same digest on
every machine (a compressor of another version would give other bytes). The manifest travels along, and gives the
artifact's own digest back on import. Our own artifacts are ModelPack already: ``vitrify export`` without a layout.

Reading. Tars plain, gzip and zstd, and files as they are, every blob checked before it is read.

Sources: https://github.com/kitops-ml/kitops (``pkg/artifact/kitfile.go``, ``pkg/lib/constants/mediatype``),
https://github.com/modelpack/model-spec (``docs/spec.md``).
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from vitrify import stores
from vitrify.artifacts.pack import pack
from vitrify.core import reference
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.core.manifest import FILEPATH, INDEX_TYPE, MANIFEST_TYPE, REF_NAME
from vitrify.formats._modelpack import layout
from vitrify.inspection.identify import identify
from vitrify.package import directory
from vitrify.package._about import description, name_of
from vitrify.package._folder import new_folder, opened, put
from vitrify.package._kitops_unpack import unpack
from vitrify.package._origin import origin, record
from vitrify.reading.files import HeldFiles, LocalFiles
from vitrify.reading.tar import Tar, is_tar

if TYPE_CHECKING:
    from collections.abc import Collection

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Files
    from vitrify.stores.oci_layout import OciLayout

CONFIG = "application/vnd.kitops.modelkit.config.v1+json"
MANIFEST = "application/vnd.kitops.modelkit.manifest.v1+json"

_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_CHUNK = 1 << 20
_DATASET, _CODE = "application/vnd.cncf.model.dataset.", "application/vnd.cncf.model.code."
_KINDS = ("model", "modelpart", "code", "dataset", "docs")


def export(artifact: Artifact, folder: Path) -> None:
    """Write an artifact as a ModelKit in an OCI layout.

    Raises:
        UnsupportedModelError: A layer has no path, or none holds weights.
        UsageError: Something is there already.
        StoreError: The disk would not take it; nothing is left behind.
    """
    directory.require_paths(artifact)
    kinds, files = _kinds(artifact), directory.raw(artifact)
    name = name_of(artifact).rpartition("/")[2]
    with new_folder(folder) as new:
        put(new, "oci-layout", _LAYOUT)
        held = {path: memoryview(data) for path, data in directory.documents(artifact).items()}
        layers = []
        for kind in _KINDS:
            for path in (path for path, of in sorted(kinds.items()) if of == kind):
                view = held[path] if path in held else files.map(path)
                layers.append((kind, path, _layer(new, kind, path, view)))
        config = _blob(new, _json(_kitfile(artifact, layers, name)), CONFIG)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "artifactType": MANIFEST,
            "config": config,
            "layers": [descriptor for _, _, descriptor in layers],
        }
        entry = {**_blob(new, _json(manifest), MANIFEST_TYPE), "artifactType": MANIFEST}
        entry["annotations"] = {REF_NAME: name.partition(":")[2]}
        put(new, "index.json", _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": [entry]}))


def import_(
    path: Path,
    name: str | None = None,
    *,
    example: Any = None,
    allow: Collection[str] = (),
    store: OciLayout | None = None,
) -> Artifact:
    """Take the model of an OCI layout, or of an archive of one, into the store; nothing in it runs.

    Args:
        path: The directory or the tar file; or the directory that ``kit unpack`` made, with its Kitfile.
        name: ``name`` or ``name:tag``.
        example: What the model is called with.
        allow: Exact names of what the scan found and you trust.
        store: Where to; by default the user's store.

    Raises:
        UsageError: It holds several models, or none.
        CorruptError: A blob is missing, or is not what its digest promises.
        MalformedError: It is no such layout, or a layer holds what no honest tool writes.
        CheckFailedError: The scan found something that is not a matter of names.
        UntrustedCodeError: It needs a name that is not in ``allow``.
    """
    tag = reference.name(name) if name else None
    where = store or stores.default_store()
    files = _opened(path)
    if layout.is_kit(files):
        config, held = layout.kitfile(files), {one: files.map(one) for one in files.names()}
    else:
        one = _one(files, path)
        config, held = one.config, unpack(files, one, where=str(path))
    inner = HeldFiles(held)
    if directory.is_ours(inner):
        return directory.take(inner, tag, where, where=str(path))
    kit = config if "package" in config or "manifestVersion" in config else {}
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        for one_path, view in held.items():
            put(Path(folder), one_path, view)
        model = _model(Path(folder), kit, held, where=str(path))
        artifact = pack(model, name, example=example, description=_description(config), allow=allow, store=where)
    record(artifact, "kitops" if kit else "modelpack", {"config": config})
    return artifact


def _opened(path: Path) -> Files:
    if path.is_dir():
        return opened(path)
    view = LocalFiles({path.name: path}).map(path.name)
    if not is_tar(view):
        msg = f"{path} is neither an OCI layout nor a tar archive of one"
        raise UsageError(msg, remedy="name a directory with the files oci-layout and index.json")
    tar = Tar(view, where=str(path), strict=True)
    return HeldFiles({name: tar.read(name) for name in tar.members})


def _one(files: Files, path: Path) -> layout.Artifact:
    if not layout.is_layout(files):
        msg = f"{path} is no OCI layout: it has not both oci-layout and index.json"
        raise UsageError(msg, remedy="name the directory or the archive that kit, oras or skopeo has written")
    found = [one for one in layout.artifacts(files) if one.is_model]
    if len(found) != 1:
        names = ", ".join(one.digest[:19] for one in found[:6])
        msg = f"{path} holds {len(found)} models, not one{f': {names}' if names else ''}"
        raise UsageError(msg, remedy="copy one of them into a layout of its own: oras copy, skopeo copy")
    return found[0]


def _model(folder: Path, kit: dict[str, Any], held: dict[str, memoryview], *, where: str) -> Path:
    """Return the model among the unpacked files: what the Kitfile names, else the only one that a format knows."""
    model = kit.get("model")
    path = model.get("path") if isinstance(model, dict) else None
    named = path.removeprefix("./").rstrip("/") if isinstance(path, str) else ""
    if named in held or any(one.startswith(f"{named}/") for one in held if named):
        return folder / named
    whole = [one for one in identify(opened(folder)) if not one.row.generic]
    if len(whole) == 1 and len(held) > 1:
        return folder
    found = [one for one in held if _is_model(one, held[one])]
    if len(found) != 1:
        msg = f"{where} holds {len(found)} models among its files, not one: {', '.join(found[:6] or sorted(held)[:6])}"
        raise UnsupportedModelError(msg, remedy="unpack it with its own tool, and pack the one that you mean")
    return folder / found[0]


def _is_model(path: str, view: memoryview) -> bool:
    rows = [one.row for one in identify(HeldFiles({path.rpartition("/")[2]: view}))]
    return len(rows) == 1 and not rows[0].generic and not path.endswith((".json", ".md", ".txt", ".npz", ".npy"))


def _kinds(artifact: Artifact) -> dict[str, str]:
    """Return for each file, the two documents among them, the kind of its layer; the largest file is the model."""
    layers = artifact.manifest.files
    kinds = dict.fromkeys(directory.documents(artifact), "docs")
    weights = []
    for path, layer in layers.items():
        if layer.media_type.startswith(_DATASET):
            kinds[path] = "dataset"
        elif layer.media_type.startswith(_CODE):
            kinds[path] = "code"
        elif layer.media_type.startswith("application/vnd.cncf.model.doc."):
            kinds[path] = "docs"
        else:
            kinds[path] = "modelpart"
            if ".weight.config." not in layer.media_type:
                weights.append(path)
    if not weights:
        msg = f"{artifact} has no file of weights, and a ModelKit has a model"
        raise UnsupportedModelError(msg, remedy="export it as a directory: --as directory")
    kinds[max(weights, key=lambda path: (layers[path].size, path))] = "model"
    return kinds


def _kitfile(artifact: Artifact, layers: list[tuple[str, str, dict[str, Any]]], name: str) -> dict[str, Any]:
    """Return the Kitfile as KitOps keeps it in the configuration: with each layer's digest beside its path."""

    def entries(kind: str) -> list[dict[str, Any]]:
        return [
            {"path": path, "digest": layer["digest"], "diffId": layer["digest"]}
            for of, path, layer in layers
            if of == kind
        ]

    card = origin(artifact).get("card")
    base, _, tag = name.partition(":")
    package = {"name": base, "version": tag, "description": description(artifact)}
    if isinstance(card, dict) and isinstance(card.get("license"), str):
        package["license"] = card["license"]
    parameters = {"vitrify": {"digest": str(artifact.digest), "format": artifact.document.format}}
    (model,) = entries("model")
    model = {"name": base, "format": artifact.document.format, **model, "parameters": parameters}
    if parts := entries("modelpart"):
        model["parts"] = parts
    kit = {"code": entries("code"), "datasets": entries("dataset"), "docs": entries("docs")}
    return {
        "manifestVersion": "1.0.0",
        "package": {key: value for key, value in package.items() if value},
        "model": model,
        **{key: value for key, value in kit.items() if value},
    }


def _layer(new: Path, kind: str, path: str, view: memoryview) -> dict[str, Any]:
    """Write one file as a tar with the folders above it, and return its descriptor."""
    with tempfile.NamedTemporaryFile(dir=new, delete=False) as stream:
        hashed = _Hashed(stream)
        with tarfile.TarFile(fileobj=hashed, mode="w", format=tarfile.GNU_FORMAT) as tar:  # type: ignore[arg-type]  # a writer is all that it needs
            parts = path.split("/")
            for depth in range(1, len(parts)):
                tar.addfile(_header("/".join(parts[:depth]), 0, folder=True))
            tar.addfile(_header(path, view.nbytes, folder=False), _Reader(view))  # type: ignore[arg-type]  # it only reads
    blob = new / "blobs" / "sha256" / hashed.hash.hexdigest()
    blob.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(stream.name)
    temporary.chmod(0o644)
    temporary.rename(blob)
    media_type = f"application/vnd.kitops.modelkit.{kind}.v1.tar"
    return {
        "mediaType": media_type,
        "digest": f"sha256:{hashed.hash.hexdigest()}",
        "size": hashed.size,
        "annotations": {FILEPATH: path},
    }


class _Hashed:
    """A stream that is hashed while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.size += len(data)
        return self._stream.write(data)

    def tell(self) -> int:
        return self.size


class _Reader:
    """A view, read from start to end."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0

    def read(self, size: int) -> bytes:
        data = bytes(self._view[self._at : self._at + size])
        self._at += len(data)
        return data


def _header(name: str, size: int, *, folder: bool) -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    header.size, header.mode = size, 0o755 if folder else 0o644
    return header


def _blob(new: Path, data: bytes, media_type: str) -> dict[str, Any]:
    code = hashlib.sha256(data).hexdigest()
    place = f"blobs/sha256/{code}"
    if not (new / place).exists():
        put(new, place, data)
    return {"mediaType": media_type, "digest": f"sha256:{code}", "size": len(data)}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _description(config: dict[str, Any]) -> str:
    for section in ("package", "descriptor"):
        about = config.get(section)
        if isinstance(about, dict) and isinstance(about.get("description"), str):
            return str(about["description"])[:2000]
    return ""
