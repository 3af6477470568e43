"""GGUF: the weights of llama.cpp and its relatives, with tokenizer, chat template and metadata in one file.

Only the header is read. A chat template in it is a program for the template engine of whoever loads the file, and is
looked at as one; it is never rendered.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.report import Finding
from vitrify.formats import _facts
from vitrify.formats._gguf.layout import gaps, overlaps
from vitrify.formats._gguf.read import Header, Listed, Long, is_gguf, parse
from vitrify.formats._gguf.types import BLOCKS, RECIPES, type_name
from vitrify.reading.files import HeldFiles, head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.core.protocols import Files

_TEMPLATE = "tokenizer.chat_template"
_MOST = 100
"""Findings of one kind that are listed."""


class Gguf:
    """The format of ggml's models: one file, little- or big-endian, version 1 to 3."""

    def detect(self, files: Files) -> bool:
        """Say whether a file starts as GGUF does."""
        return is_gguf(head(files, 8))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return architecture, quantisation, tokenizer, context length, tensors and metadata; no tensor is read."""
        header = parse(files.map(entry["file"]), where=entry["file"])
        known = header.metadata
        architecture = known.get("general.architecture")
        facts = {
            "name": known.get("general.name"),
            "architecture": architecture,
            "producer": known.get("general.quantized_by") or known.get("general.author"),
            "versions": {"gguf": str(header.version)},
            "byte_order": header.order,
            "license": known.get("general.license"),
            "context_length": known.get(f"{architecture}.context_length"),
            "quantisation": _quantisation(header),
            "tokenizer": _tokenizer(known),
            "chat_templates": sorted(key for key in known if _is_template(key)),
            "part": _part(known),
            "alignment": header.alignment,
            "metadata": {key: _shown(value) for key, value in known.items()},
            **_facts.weights(
                _facts.tensor(one.name, type_name(one.kind), one.shape[::-1], one.size or 0) for one in header.tensors
            ),
        }
        return {key: value for key, value in facts.items() if value not in (None, [], {})}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong with how the tensors lie, bytes that belong to nothing, and what templates would do."""
        name = entry["file"]
        data = files.map(name)
        header = parse(data, where=name)
        for first, second in _first(overlaps(header)):
            yield Finding(
                place=f"{name}: {second.name}",
                message=f"the tensors {first.name!r} and {second.name!r} share bytes, which no tool writes",
                rule="overlap",
                subject=second.name,
            )
        for gap in _first(gaps(header, data)):
            yield Finding(
                place=f"{name}: byte {gap.start}",
                message=f"{gap.end - gap.start} bytes belong to no tensor: another file may hide there",
                rule="hidden-bytes",
                subject=name,
            )
        for tensor in _first(one for one in header.tensors if one.kind not in BLOCKS):
            yield Finding(
                place=f"{name}: {tensor.name}",
                message=f"the ggml type {tensor.kind} is not known here, nor how many bytes the tensor takes",
                rule="unknown-type",
                subject=str(tensor.kind),
                verdict="not checked",
            )
        for key in sorted(filter(_is_template, header.metadata)):
            yield from _template(f"{name}: {key}", header.metadata[key])

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterable[tuple[str, Files]]:
        """Yield the bytes that belong to no tensor."""
        data = files.map(entry["file"])
        for gap in _first(gaps(parse(data, where=entry["file"]), data)):
            place = f"byte {gap.start}"
            yield place, HeldFiles({place: data[gap.start : gap.end]})


def _first(found: Iterable[Any]) -> Iterator[Any]:
    return (one for one, _ in zip(found, range(_MOST), strict=False))


def _is_template(key: str) -> bool:
    return key == _TEMPLATE or key.startswith(f"{_TEMPLATE}.")


def _template(place: str, value: Any) -> Iterator[Finding]:
    if isinstance(value, str):
        # Only here: it compiles patterns that no other file needs.
        from vitrify.formats._templates import findings

        yield from findings(value, place=place)
    else:
        size = f"of {value.size} bytes" if isinstance(value, Long) else "that is no text"
        yield Finding(
            place=place, message=f"a chat template {size} was not looked at", rule="template", verdict="not checked"
        )


def _quantisation(header: Header) -> dict[str, Any]:
    recipe = header.metadata.get("general.file_type")
    stated = {"file_type": RECIPES.get(recipe, str(recipe))} if type(recipe) is int else {}
    tensors = _facts.counts(_facts.element(type_name(tensor.kind)) for tensor in header.tensors)
    return {**stated, "tensors": tensors} if stated or tensors else {}


def _tokenizer(known: dict[str, Any]) -> dict[str, Any]:
    found = {
        key.removeprefix("tokenizer.ggml."): value for key, value in known.items() if key.startswith("tokenizer.ggml.")
    }
    return {key: value.count if isinstance(value, Listed) else _shown(value) for key, value in found.items()}


def _part(known: dict[str, Any]) -> dict[str, Any] | None:
    if "split.count" not in known:
        return None
    return {"number": _shown(known.get("split.no")), "of": _shown(known["split.count"])}


def _shown(value: Any) -> Any:
    match value:
        case Listed():
            return {"type": value.kind, "count": value.count, "first": [_shown(one) for one in value.first]}
        case Long():
            return {"type": "string", "bytes": value.size}
        case _:
            return value
