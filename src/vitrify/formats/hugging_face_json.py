"""A JSON file of Hugging Face's on its own: a configuration that names code, a chat template, a list of modules.

In a repository :mod:`.hugging_face` answers for them. Alone, in a folder without a configuration or in an archive
they are what they are all the same: whoever puts them into a folder and loads that runs what they name.

Specification: https://huggingface.co/docs/transformers/main/en/custom_models
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.formats._archives import one_file
from vitrify.formats._hugging_face.layout import MAX_JSON
from vitrify.reading import json
from vitrify.reading.files import only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files
    from vitrify.core.report import Finding

_TELLING = ("auto_map", "custom_pipelines", "custom_pipeline", "custom_generate", "chat_template", "peft_type")
_MODULE = frozenset({"idx", "path", "type"})
_MAX_MODULES = 256 * 1024


class HuggingFaceJson:
    """Configurations of transformers, diffusers, peft and sentence-transformers that can name code or a path."""

    def detect(self, files: Files) -> bool:
        """Say whether a file is JSON with a key that only such a configuration has, or a list of modules."""
        name = only(files)
        if name is None:
            return False
        view = files.map(name)
        return bool(json.peek(view, *_TELLING)) or _is_modules(view)

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return its members that are short."""
        value, _ = _read(files, entry)
        if isinstance(value, list):
            return {"modules": [one.get("type") for one in value if isinstance(one, dict)]}
        return {"metadata": {key: one for key, one in value.items() if isinstance(one, str | int | float | bool)}}

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield code that it asks for, what templates would do, and paths out of its folder."""
        from vitrify.formats._hugging_face.hazards import of_config, of_modules

        value, where = _read(files, entry)
        if isinstance(value, list):
            yield from of_modules(where, value)
        else:
            yield from of_config(where, value, is_adapter="peft_type" in value)


def _is_modules(view: memoryview) -> bool:
    if len(view) > _MAX_MODULES or bytes(view[:64]).lstrip()[:1] != b"[":
        return False
    from vitrify.core.errors import MalformedError

    try:
        listed = json.parse(view, where="")
    except MalformedError:
        return False
    return bool(listed) and all(isinstance(one, dict) and one.keys() >= _MODULE for one in listed)


def _read(files: Files, entry: Mapping[str, Any]) -> tuple[Any, str]:
    view, where = one_file(files, entry)
    value = json.parse(view, where=where, most=MAX_JSON)
    return (value, where) if isinstance(value, dict | list) else refuse(where, "no configuration")
