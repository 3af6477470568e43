"""What in a Hugging Face directory could run: code that its configuration asks for, templates, paths.

The configuration and the templates are answered for here; weights, code and text are left to their own formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vitrify.core.nesting import shallow
from vitrify.core.report import Finding
from vitrify.formats import _templates
from vitrify.formats._hugging_face.layout import ADAPTER, MAX_JSON, read
from vitrify.formats._loose import items
from vitrify.reading import json
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files

_CODE = frozenset({"auto_map", "custom_pipelines", "custom_pipeline", "custom_generate"})
_CONFIGS = frozenset(
    {
        *("config.json", "adapter_config.json", "model_index.json", "tokenizer_config.json", "generation_config.json"),
        *("preprocessor_config.json", "processor_config.json", "image_processor_config.json", "chat_template.json"),
        *("video_preprocessor_config.json", "feature_extractor_config.json", "scheduler_config.json"),
        *("special_tokens_map.json", "config_sentence_transformers.json"),
    }
)
_TOKENIZER, _MODULES = "tokenizer.json", "modules.json"
_OWN_MODULES = "sentence_transformers."
_NESTED = ("normalizers", "pretokenizers", "processors", "decoders")
_MAX_TEMPLATE = 4 * 1024 * 1024
_PARTS = {
    "normalizer": frozenset(
        {
            *("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend", "Replace"),
            *("Sequence", "Strip", "StripAccents", "ByteLevel"),
        }
    ),
    "pre_tokenizer": frozenset(
        {
            *("BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Delimiter", "Digits", "FixedLength", "Metaspace"),
            *("Punctuation", "Sequence", "Split", "UnicodeScripts", "Whitespace", "WhitespaceSplit"),
        }
    ),
    "post_processor": frozenset({"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"}),
    "decoder": frozenset(
        {
            *("BPEDecoder", "ByteFallback", "ByteLevel", "CTC", "Fuse", "Metaspace", "Replace", "Sequence", "Strip"),
            "WordPiece",
        }
    ),
}
"""What the tokenizers library knows; all of it is data."""


class _Tokenizer(msgspec.Struct):
    """``tokenizer.json`` without its vocabulary, which is skipped and not kept."""

    normalizer: Any = None
    pre_tokenizer: Any = None
    post_processor: Any = None
    decoder: Any = None


def hazards(files: Files, base: str) -> Iterator[Finding]:
    """Yield what could run code or reach out."""
    for name in files.names():
        last = name.rpartition("/")[2]
        if not name.startswith(base):
            continue
        if last in _CONFIGS and "/" not in name[len(base) :]:
            yield from of_config(name, read(files, name), is_adapter=last == ADAPTER)
        elif name == base + _MODULES:
            yield from of_modules(name, json.parse(files.map(name), where=name, most=MAX_JSON))
        elif last == _TOKENIZER and "/" not in name[len(base) :]:
            yield from _tokenizer(files, name)
        elif name.endswith(".jinja"):
            yield from _template(files, name)


def of_config(name: str, config: dict[str, Any], *, is_adapter: bool) -> Iterator[Finding]:
    """Yield the code that a configuration asks for, what its templates would do, and an adapter's path to its base."""
    left: list[tuple[str, Any]] = [("", config)]
    while left:
        place, value = left.pop()
        if isinstance(value, list):
            left += [(place, one) for one in value]
        if not isinstance(value, dict):
            continue
        for key, one in value.items():
            where = f"{place}.{key}" if place else key
            if key in _CODE and one:
                yield from _code(f"{name}: {where}", one)
            elif key == "chat_template":
                yield from _templates_of(f"{name}: {where}", one)
            else:
                left.append((where, one))
    base = config.get("base_model_name_or_path")
    if is_adapter and isinstance(base, str) and _climbs(base):
        yield Finding(
            place=f"{name}: base_model_name_or_path",
            message=f"the adapter's base model is said to lie at {base[:200]!r}, outside the directory",
            rule="path",
            subject=base,
        )


def _code(place: str, value: Any) -> Iterator[Finding]:
    """Yield a finding for each class that is named: ``modeling_x.Model``, ``owner/repo--modeling_x.Model``."""
    left, names = [value], set()
    while left:
        one = left.pop()
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
        if isinstance(one, str):
            names.add(one)
    for name in sorted(names):
        where = f"in the repository {name.partition('--')[0]!r}" if "--" in name else "that comes with the model"
        yield Finding(
            place=place,
            message=f"asks for Python code {where} ({name}): loading with trust_remote_code runs it",
            remedy="read that code; load without trust_remote_code",
            rule="python-code",
            subject=name,
        )


def of_modules(name: str, listed: Any) -> Iterator[Finding]:
    """Yield the classes that sentence-transformers would import by name, other than its own, and paths that climb."""
    for one in items(listed):
        module = one if isinstance(one, dict) else {}
        kind, path = module.get("type"), module.get("path")
        if isinstance(kind, str) and not kind.startswith(_OWN_MODULES):
            yield from _code(f"{name}: type", kind)
        if isinstance(path, str) and (_climbs(path) or path.startswith(("/", "\\", "~"))):
            message = f"a module is said to lie at {path[:200]!r}, outside the directory"
            yield Finding(place=f"{name}: path", message=message, rule="path", subject=path)


def _climbs(path: str) -> bool:
    return ".." in path.replace("\\", "/").split("/")


def _templates_of(place: str, value: Any) -> Iterator[Finding]:
    """Yield what is in a template, or in several by name."""
    match value:
        case str():
            yield from _templates.findings(value, place=place)
        case dict():
            for name, text in value.items():
                yield from _templates_of(f"{place}.{name}", text)
        case list():
            for one in value:
                named = one if isinstance(one, dict) else {}
                yield from _templates_of(f"{place}.{named.get('name')}", named.get("template", ""))
        case None:
            return
        case _:
            yield Finding(
                place=place, message="a chat template that is no text", rule="template", verdict="not checked"
            )


def _template(files: Files, name: str) -> Iterator[Finding]:
    data = files.map(name)
    if len(data) > _MAX_TEMPLATE:
        message = f"a template of {len(data)} bytes was not looked at"
        yield Finding(place=name, message=message, rule="limit", verdict="not checked")
        return
    try:
        text = bytes(data).decode()
    except ValueError:
        refuse(name, "a template that is no UTF-8")
    yield from _templates.findings(text, place=name)


def _tokenizer(files: Files, name: str) -> Iterator[Finding]:
    """Yield parts that the tokenizers library does not know: it refuses them, but what else reads them is not known."""
    data = files.map(name)
    try:
        found = msgspec.json.decode(shallow(bytes(data)), type=_Tokenizer)
    except (msgspec.DecodeError, RecursionError) as error:
        refuse(name, f"no tokenizer ({error})")
    for part, known in _PARTS.items():
        left = [getattr(found, part)]
        while left:
            one = left.pop()
            kind = one.get("type") if isinstance(one, dict) else None
            kind = kind if kind is None or isinstance(kind, str) else f"a {type(kind).__name__}"
            if kind is not None and kind not in known:
                yield Finding(
                    place=f"{name}: {part}",
                    message=f"the {part.replace('_', '-')} {kind[:80]!r} is not known here",
                    rule="unknown-type",
                    subject=kind,
                    verdict="not checked",
                )
            if isinstance(one, dict):
                left += [step for key in _NESTED for step in items(one.get(key))]
