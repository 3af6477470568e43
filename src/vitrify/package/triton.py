"""A model repository of Triton: ``NAME/config.pbtxt`` and a folder a version.

Where Triton's own backend computes what the artifact does, the model's own file is written for it: ONNX, OpenVINO,
SavedModel, TorchScript. The graph's names and types are then those that clients use; the configuration says in
``vitrify.names`` which of the signature's names they are. Everything else, and a graph whose answers are not yet those
of the signature, is run by Triton's Python backend: ``model.py`` opens the sealed artifact, which lies beside it.

Sources: https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_repository.md, and
``model_configuration.md`` there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.package import _triton_config as triton
from vitrify.package._bundle import bundle
from vitrify.package._folder import new_folder, put
from vitrify.package._served import Graph, Tensor, graph_of, model_name, require_open, signature_of, version_number

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.signature import Field, Signature

BACKENDS = ("auto", "python")
ROWS = 32
MODEL = b"""# A model that Vitrify runs, inside of Triton: the sealed artifact lies beside this file.
from vitrify.serve.guest.triton import TritonPythonModel

__all__ = ["TritonPythonModel"]
"""
"""The Python backend's ``model.py``."""

_CONFIG = "config.pbtxt"
_SAVED_MODEL, _MAIN = "model.savedmodel", "saved_model.pb"
_OURS = frozenset({DOCUMENT, GOLDEN})
_TORCH_CONTAINERS = frozenset({"numpy", "torch", "tuple"})
_TORCH_LACKS = frozenset({"TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_STRING"})
_UNSAFE = frozenset('/\\:*?"<>|\r\n')


def export(
    artifact: Artifact,
    folder: Path,
    *,
    also: Sequence[Artifact] = (),
    backend: str = "auto",
    rows: int = ROWS,
    allow: Collection[str] = (),
) -> None:
    """Write a model repository.

    Args:
        artifact: The artifact.
        folder: The directory to make.
        also: More of them; those of one name are versions of one model.
        backend: ``python`` has Vitrify run every model; ``auto`` only those for which Triton has no backend.
        rows: Rows a batch at most; 1 where requests are not to be put together.
        allow: Exact names of code that the models may run, where Vitrify runs them.

    Raises:
        UnsupportedModelError: One has no signature, or two versions of one model differ in what goes in or out.
        UsageError: Something is there already, one is encrypted, or two versions have the same number.
        StoreError: The disk would not take it; nothing is left behind.
    """
    if backend not in BACKENDS or rows < 1:
        msg = f"backend {backend!r} and {rows} rows a batch; expected one of {', '.join(BACKENDS)}, and 1 or more"
        raise UsageError(msg)
    models: dict[str, list[_Version]] = {}
    for one in (artifact, *also):
        _add(models.setdefault(model_name(one), []), _version(one, backend))
    with new_folder(folder) as new:
        for name, versions in models.items():
            for version in versions:
                _write_version(version, new, f"{name}/{version.number}")
            first = versions[0]
            digests = {one.number: str(one.artifact.digest) for one in versions}
            put(new, f"{name}/{_CONFIG}", triton.config(name, first.told, digests, rows=rows, allow=allow))
            for field in signature_of(first.artifact).outputs:
                if _has_labels(field):
                    put(new, f"{name}/{_labels_file(field)}", _labels(field))


@dataclass(frozen=True)
class _Version:
    artifact: Artifact
    number: int
    told: triton.Told


def _version(artifact: Artifact, backend: str) -> _Version:
    require_open(artifact, "Triton")
    signature = signature_of(artifact)
    told = _native(artifact, signature) if backend == "auto" else None
    return _Version(artifact, version_number(artifact), told or _ours(signature, artifact.document.format))


def _add(versions: list[_Version], new: _Version) -> None:
    """Take one more version of a model; Triton has one configuration for all of them."""
    who = model_name(new.artifact)
    if any(one.number == new.number for one in versions):
        msg = f"two artifacts want to be version {new.number} of {who!r}"
        raise UsageError(msg, remedy="give them tags that are different numbers or releases: churn:2, churn:1.2.0")
    if versions and versions[0].told != new.told:
        msg = f"the versions of {who!r} differ in what goes in or out, or in what runs them"
        raise UnsupportedModelError(msg, remedy="give one of them another name: vitrify tag REF NAME, and export that")
    versions.append(new)


def _write_version(version: _Version, new: Path, place: str) -> None:
    artifact, backend = version.artifact, version.told.backend["backend"]
    if backend == "python":
        put(new, f"{place}/model.py", MODEL)
        bundle(artifact, new / place)
        return
    inside = f"{place}/{_SAVED_MODEL}" if backend == "tensorflow" else place
    for name in artifact.files.names():
        if name not in _OURS:
            put(new, f"{inside}/{name}", artifact.files.map(name))


def _native(artifact: Artifact, signature: Signature) -> triton.Told | None:
    """Return what Triton is told of a model that it can run itself; None where it cannot."""
    kind, file = artifact.document.format, artifact.document.entry.get("file", _MAIN)
    if kind not in {"onnx", "openvino", "saved-model", "torchscript"} or (kind == "saved-model" and file != _MAIN):
        return None
    graph = _torch_graph(artifact, signature) if kind == "torchscript" else graph_of(artifact)
    if graph is None:
        return None
    labels = {field.name: _labels_file(field) for field in signature.outputs if _has_labels(field)}
    inputs, outputs = (
        tuple(triton.of_tensor(one, fields(one.field), labels.get(one.field, "")) for one in side)
        for side, fields in ((graph.inputs, signature.input), (graph.outputs, signature.output))
    )
    lacking = _TORCH_LACKS if kind == "torchscript" else frozenset()
    if any(port is None or 0 in port.shape or port.type in lacking for port in (*inputs, *outputs)):
        return None
    names = {one.field: one.name for one in (*graph.inputs, *graph.outputs) if one.field != one.name}
    return triton.Told(kind, _backend(artifact), tuple(filter(None, inputs)), tuple(filter(None, outputs)), names)


def _backend(artifact: Artifact) -> dict[str, str]:
    file = str(artifact.document.entry.get("file", ""))
    match artifact.document.format:
        case "onnx":
            return {"backend": "onnxruntime", "default_model_filename": file or "model.onnx"}
        case "openvino":
            return {"backend": "openvino", "default_model_filename": file or "model.xml"}
        case "torchscript":
            return {"backend": "pytorch", "platform": "pytorch_libtorch", "default_model_filename": file or "model.pt"}
    return {"backend": "tensorflow", "platform": "tensorflow_savedmodel", "default_model_filename": _SAVED_MODEL}


def _torch_graph(artifact: Artifact, signature: Signature) -> Graph | None:
    """Return a TorchScript module's arguments and answers: it has no names, so that Triton goes by positions."""
    answers = [field.name for field in signature.outputs]
    positions = [f"output_{index}" for index in range(len(answers))]
    if "takes" in artifact.document.entry or signature.container not in _TORCH_CONTAINERS or not answers:
        return None
    if answers not in (positions, ["output"]) or any(not field.shape for field in signature.inputs):
        return None
    sides = (("INPUT", signature.inputs), ("OUTPUT", signature.outputs))
    return Graph(*(tuple(_placed(word, at, one) for at, one in enumerate(fields)) for word, fields in sides))


def _placed(word: str, position: int, field: Field) -> Tensor:
    shape = tuple(size if isinstance(size, int) else None for size in field.shape)
    return Tensor(field.name, f"{word}__{position}", field.dtype, shape)


def _ours(signature: Signature, kind: str) -> triton.Told:
    """Return what Triton is told of a model that Vitrify runs.

    Raises:
        UnsupportedModelError: A size is 0.
    """
    inputs = tuple(triton.of_field(field, "") for field in signature.inputs)
    outputs = tuple(
        triton.of_field(field, _labels_file(field) if _has_labels(field) else "") for field in signature.outputs
    )
    if any(0 in port.shape for port in (*inputs, *outputs)):
        msg = "an input or output has a size of 0, which Triton has no word for"
        raise UnsupportedModelError(msg, remedy="serve it with: vitrify serve")
    return triton.Told(kind, {"backend": "python"}, inputs, outputs, {})


def _has_labels(field: Field) -> bool:
    """Say whether an output has a column for each class, and each label is one line of a file."""
    classes = field.classes or ()
    one_a_column = bool(classes) and field.shape[-1:] == (len(classes),)
    return one_a_column and not any(_UNSAFE & {*field.name} or {*"\r\n"} & {*str(label)} for label in classes)


def _labels_file(field: Field) -> str:
    return f"{field.name}.labels.txt"


def _labels(field: Field) -> bytes:
    return "".join(f"{label}\n" for label in field.classes or ()).encode()
