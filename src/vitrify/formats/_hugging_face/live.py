"""Live models of transformers: to a directory as ``save_pretrained`` writes it, and back without any code of theirs.

Only files of data are put before the library: JSON, safetensors, vocabularies. A class that is not transformers' own is
refused on both ways, and ``trust_remote_code`` does not occur.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.formats._hugging_face.layout import CONFIG, read
from vitrify.formats._torch.quiet import quiet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files, Sink

_DATA = (".json", ".safetensors", ".txt", ".model")
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
_OF_MACHINE = ("_name_or_path", "name_or_path")
_MAX_REASON = 400


def write(model: Any, tokenizer: Any, sink: Sink) -> None:
    """Write a model, and its tokenizer where it has one.

    Raises:
        UnsupportedModelError: Its class is not one of transformers, or the library cannot write it.
    """
    _require_own(model)
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        try:
            with quiet():
                model.save_pretrained(folder)
                if tokenizer is not None:
                    tokenizer.save_pretrained(folder)
        except Exception as error:
            msg = f"transformers cannot write this model: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
            raise UnsupportedModelError(msg, remedy="save it as a PyTorch module: format='torch-export'") from error
        for path in sorted(one for one in Path(folder).rglob("*") if one.is_file()):
            name = path.relative_to(folder).as_posix()
            data = _without_places(path.read_bytes()) if name.endswith(".json") else None
            with sink.open(name, "weight.config" if data is not None else "weight") as stream:
                if data is not None:
                    stream.write(data)
                else:
                    with path.open("rb") as source:
                        while chunk := source.read(1 << 20):
                            stream.write(chunk)


def load(files: Files, base: str, attention: str | None) -> tuple[Any, Any]:
    """Return the model in eval mode, and the tokenizer or None.

    Raises:
        MalformedError: It has no weights as safetensors, or does not fit together.
        UnsupportedModelError: Its class is not one of transformers.
    """
    import transformers

    config = read(files, base + CONFIG)
    kinds = config.get("architectures") or []
    cls: Any = getattr(transformers, str(kinds[0]), None) if len(kinds) == 1 else None
    known = isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)
    if "auto_map" in config or not known:
        msg = f"{base}{CONFIG}: the architecture {kinds} is none of transformers {transformers.__version__}"
        remedy = "install the version of transformers that has it; models with code of their own are not loaded"
        raise UnsupportedModelError(msg, remedy=remedy)
    if not any(name.startswith(base) and name.endswith(".safetensors") for name in files.names()):
        msg = "this directory has no weights as safetensors"
        raise MalformedError(msg, remedy="save it again with save_pretrained, and pack that")
    options: dict[str, Any] = {"attn_implementation": attention} if attention else {}
    with _linked(files, base) as folder:
        try:
            with quiet():
                options |= {"local_files_only": True, "use_safetensors": True, "dtype": "auto"}
                model = cls.from_pretrained(folder, **options)
                has = any(base + name in files.names() for name in _TOKENIZER)
                tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True) if has else None
        except Exception as error:
            msg = f"transformers {transformers.__version__} cannot load this: {str(error)[:_MAX_REASON]}"
            raise MalformedError(msg, remedy="see the versions that it was written with: vitrify inspect") from error
    return model.eval(), tokenizer


def _require_own(model: Any) -> None:
    import transformers

    cls = type(model)
    own = cls.__module__.partition(".")[0] == "transformers" and getattr(transformers, cls.__name__, None) is cls
    if not own:
        msg = f"{cls.__module__}.{cls.__qualname__} is no class of transformers, so its code would have to travel along"
        raise UnsupportedModelError(msg, remedy="save it as a PyTorch module: format='torch-export'")


def _without_places(data: bytes) -> bytes:
    """Drop where the model was loaded from, on whose machine."""
    value = json.loads(data)
    if isinstance(value, dict) and any(name in value for name in _OF_MACHINE):
        kept = {key: part for key, part in value.items() if key not in _OF_MACHINE}
        return json.dumps(kept, indent=2, ensure_ascii=False).encode() + b"\n"
    return data


@contextmanager
def _linked(files: Files, base: str) -> Iterator[Path]:
    """Yield a directory with the files of data under their own names; nothing is copied."""
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        for name in files.names():
            inner = PurePosixPath(name[len(base) :])
            if name.startswith(base) and len(inner.parts) == 1 and inner.suffix in _DATA:
                Path(folder, inner.name).symlink_to(files.path(name).resolve())
        yield Path(folder)
