"""``vitrify save``: seal a model that a Python file makes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import click

from vitrify.cli._options import common, open_store


@click.command("save")
@click.argument("model", metavar="FILE.py:OBJECT")
@click.argument("name")
@click.option("--example", required=True, metavar="FILE.py:OBJECT", help="What the model is called with.")
@click.option("--format", "format_", help="Catalog name; pickle only if you ask for it.")
@click.option("--code", multiple=True, metavar="NAME", help="Dotted name of more code that must travel along.")
@click.option("--description", default="", help="Free text.")
@common
def command(
    model: str,
    name: str,
    example: str,
    format_: str | None,
    code: tuple[str, ...],
    description: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Seal a model that a Python file or module makes.

    The file is run: it is your own training code. A data file works as an example too.
    """
    from vitrify.artifacts import save
    from vitrify.cli import _data
    from vitrify.cli._render import progress_bars, show_sealed

    value = load_object(model)
    shown = load_object(example) if ":" in example else _data.read(example)
    with progress_bars():
        artifact = save(
            value, name, example=shown, format=format_, code=code, description=description, store=open_store(store)
        )
    show_sealed(artifact, as_json=as_json)


def load_object(text: str) -> Any:
    """Return the object that ``file.py:name`` or ``package.module:name`` means, running that file once.

    Raises:
        UsageError: There is no such file, module or name.
    """
    from vitrify.core.errors import UsageError

    where, _, name = text.rpartition(":")
    if not where:
        msg = f"expected FILE.py:OBJECT or MODULE:OBJECT, got {text!r}"
        raise UsageError(msg)
    file = Path(where)
    try:
        if file.suffix == ".py":
            sys.path.insert(0, str(file.resolve().parent))
            module = importlib.import_module(file.stem)
        else:
            module = importlib.import_module(where)
        return getattr(module, name)
    except (ModuleNotFoundError, AttributeError) as error:
        msg = f"cannot load {text!r}: {error}"
        raise UsageError(msg) from error
