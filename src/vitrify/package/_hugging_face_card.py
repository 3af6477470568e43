"""Model cards of the Hugging Face Hub: YAML between two lines of dashes, then text for people.

Source: https://huggingface.co/docs/hub/model-cards and its list of metadata.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UsageError
from vitrify.package import _yaml
from vitrify.package._about import description, name_of
from vitrify.reading import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.protocols import Files

CARD = "README.md"

_LIBRARIES = {
    "hugging-face": "transformers",
    "skops": "sklearn",
    "safetensors": "safetensors",
    "keras": "keras",
    "onnx": "onnx",
    "gguf": "gguf",
    "openvino": "openvino",
    "coreml": "coreml",
    "tflite": "tf-lite",
    "saved-model": "tf-keras",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
}
"""The Hub's name of the library that opens a format of ours."""

_KEYS = ("license", "library_name", "tags", "base_model", "datasets", "metrics", "language", "pipeline_tag")
_FRONT = re.compile(r"---\r?\n(.*?)\r?\n---(?:\r?\n|$)", re.DOTALL)
_LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{0,99}", re.ASCII)
_MAX_BYTES, _MAX_TEXT, _MAX_LISTED, _MAX_DESCRIPTION = 4 * 1024 * 1024, 500, 200, 500


@dataclass(frozen=True)
class Card:
    """What stands at the head of a model card; empty text and empty lists are left out.

    Attributes:
        license: The Hub's identifier, ``apache-2.0``.
        library_name: The library that opens it; by default that of the format.
        tags: Words to find it by.
        base_model: Repositories that it was made from.
        datasets: What it was trained on.
        metrics: Names of what was measured.
        language: Language codes.
        pipeline_tag: The task, ``text-classification``.
    """

    license: str = ""
    library_name: str = ""
    tags: tuple[str, ...] = ()
    base_model: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    pipeline_tag: str = ""

    def __post_init__(self) -> None:
        """Refuse what no card can have."""
        if self.license and not _LICENSE.fullmatch(self.license):
            msg = f"not a license: {self.license!r}"
            raise UsageError(msg, remedy="give an identifier of the Hub or of SPDX, such as apache-2.0")

    def head(self) -> dict[str, Any]:
        """Return the metadata that is there, in the order in which cards have it."""
        found = {key: getattr(self, key) for key in _KEYS}
        return {key: list(item) if isinstance(item, tuple) else item for key, item in found.items() if item}

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Card:
        """Return the part of a stranger's metadata that is of the right types, each text and list bounded."""
        found: dict[str, Any] = {}
        for key in _KEYS:
            values = [one[:_MAX_TEXT] for one in _listed(raw.get(key)) if isinstance(one, str)][:_MAX_LISTED]
            if key in {"license", "library_name", "pipeline_tag"}:
                found[key] = values[0] if values else ""
            else:
                found[key] = tuple(values)
        if not _LICENSE.fullmatch(found["license"]):
            found["license"] = ""
        return cls(**found)


@dataclass(frozen=True)
class Read:
    """A card that was read.

    Attributes:
        card: Its metadata.
        description: Its first paragraph, without headings, at most 500 characters.
    """

    card: Card = field(default_factory=Card)
    description: str = ""


def read(files: Files, base: str = "") -> Read:
    """Return a repository's card; an empty one where there is none, or none that a program can read.

    A card is text for people: what is wrong with it is no reason to refuse the model.
    """
    name = f"{base}{CARD}"
    if name not in files.names() or files.map(name).nbytes > _MAX_BYTES:
        return Read()
    text = bytes(files.map(name)).decode(errors="replace").lstrip("\ufeff")
    found = _FRONT.match(text)
    try:
        raw = yaml.parse(found[1].encode(), where=name) if found else {}
    except MalformedError:
        raw = {}
    body = text[found.end() :] if found else text
    return Read(Card.of(raw if isinstance(raw, dict) else {}), _first_paragraph(body))


def write(artifact: Artifact, card: Card) -> bytes:
    """Return the card of an artifact: what it is, its inputs and outputs, and how to check and open it."""
    library = card.library_name or _LIBRARIES.get(artifact.document.format, "")
    head = Card(**{**card.__dict__, "library_name": library, "tags": tuple(dict.fromkeys([*card.tags, "vitrify"]))})
    lines = ["---", _yaml.dump(head.head()).decode().rstrip("\n"), "---", "", *_body(artifact), ""]
    return "\n".join(lines).encode()


def _body(artifact: Artifact) -> Iterator[str]:
    document = artifact.document
    name = name_of(artifact).partition(":")[0]
    yield f"# {_shown(name)}"
    yield ""
    if text := description(artifact):
        yield from (_shown(text), "")
    yield f"A model in the format `{document.format}`, sealed by Vitrify as `{artifact.digest}`."
    yield ""
    if document.signature:
        yield from ("| | name | type | shape |", "| --- | --- | --- | --- |")
        sides = (("input", document.signature.inputs), ("output", document.signature.outputs))
        for side, fields in sides:
            for one in fields:
                shape = ", ".join(map(str, one.shape))
                yield f"| {side} | {_shown(one.name)} | {one.dtype}{'?' if one.nullable else ''} | {shape} |"
        yield ""
    if document.golden:
        yield f"It holds {document.golden} golden samples: `vitrify verify` runs them again."
        yield ""
    yield "Take it into a store, every byte checked, and open it:"
    yield ""
    yield from ("    vitrify import DIRECTORY NAME", "    vitrify verify NAME")


def _first_paragraph(text: str) -> str:
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")[: 64 * 1024]):
        lines = [line.strip() for line in block.strip().splitlines()]
        if lines and not lines[0].startswith(("#", "<", "|", "```", "![", "---", "[!", ">")):
            return " ".join(lines)[:_MAX_DESCRIPTION]
    return ""


def _shown(text: str) -> str:
    """Return text that stays text in Markdown and in a table."""
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", " ".join(text.split()))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
