"""Where things lie in a Hugging Face directory: the repository itself, or a cache with its snapshots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.formats._safetensors.shards import INDEX, SUFFIX
from vitrify.reading import json

if TYPE_CHECKING:
    from vitrify.core.protocols import Files

CONFIG, ADAPTER, PIPELINE = "config.json", "adapter_config.json", "model_index.json"
MAX_JSON = 8 * 1024 * 1024
"""Bytes of JSON that is parsed here: a configuration has some kilobytes. A vocabulary may have more."""

_MARKS = {
    CONFIG: frozenset({"model_type", "architectures", "auto_map", "_diffusers_version", "transformers_version"}),
    ADAPTER: frozenset({"peft_type", "base_model_name_or_path"}),
    PIPELINE: frozenset({"_diffusers_version"}),
}
_SNAPSHOT = re.compile(r"(?:models--[^/]+/)?snapshots/[^/]+/")
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.)")


def find(files: Files) -> str | None:
    """Return the path of the repository inside the directory, empty or ending in a slash; None where there is none."""
    names = files.names()
    bases = ["", *sorted({found[0] for name in names if (found := _SNAPSHOT.match(name))})]
    return next((base for base in bases if any(_is_mark(files, base, mark) for mark in _MARKS)), None)


def _is_mark(files: Files, base: str, mark: str) -> bool:
    if base + mark not in files.names() or len(files.names()) == 1:
        return False
    try:
        return not _MARKS[mark].isdisjoint(read(files, base + mark))
    except MalformedError:
        return False


def read(files: Files, name: str) -> dict[str, Any]:
    """Return a JSON object; an empty one where the file is not there.

    Raises:
        MalformedError: It is no JSON object.
        LimitExceededError: It is longer than ``MAX_JSON``.
    """
    if name not in files.names():
        return {}
    value = json.parse(files.map(name), where=name, most=MAX_JSON)
    if not isinstance(value, dict):
        msg = f"{name}: a JSON object was expected, not a {type(value).__name__}"
        raise MalformedError(msg)
    return value


def shards(files: Files, base: str) -> dict[str, list[str]]:
    """Return for each index of safetensors files the files beside it that it is about, itself among them."""
    here = [name for name in files.names() if name.startswith(base) and "/" not in name[len(base) :]]
    found = {}
    for index in here:
        if index.endswith(INDEX):
            stem = index.removesuffix(INDEX)
            same = [name for name in here if name.endswith(SUFFIX) and _SHARD.sub("", name) == f"{stem}{SUFFIX}"]
            found[index] = [index, *(name for name in same if _SHARD.search(name))]
    return found
