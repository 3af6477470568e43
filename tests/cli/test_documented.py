"""What the pages say of the command line is there, and what is there stands in the reference."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from vitrify.cli import group

DOCS = Path(__file__).parent.parent.parent / "docs"
REFERENCE = DOCS / "reference" / "command-line.md"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if "vitrify " in page.read_text(encoding="utf-8")]
CALL = re.compile(r"(?<![\w/.\[-])vitrify ([a-z][^\n`#|]*)")
OPTION = re.compile(r"--?[a-zA-Z][\w-]*")


def commands(command, above=None, path=()):
    """Yield each command's words and its options."""
    context = click.Context(command, info_name=path[-1] if path else "vitrify", parent=above)
    options = {name for one in command.get_params(context) for name in (*one.opts, *one.secondary_opts)}
    yield path, command, options
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), context, (*path, name))


@pytest.fixture(scope="module")
def tree():
    return {path: (command, options) for path, command, options in commands(group)}


def test_every_command_stands_in_the_reference(tree):
    rows = [line for line in REFERENCE.read_text(encoding="utf-8").splitlines() if line.startswith("| `vitrify ")]

    def stands(path):
        return any(f"`vitrify {path[0]}" in row and set(path) <= set(re.findall(r"[\w-]+", row)) for row in rows)

    ends = [path for path, (command, _) in tree.items() if not isinstance(command, click.Group)]
    assert len(ends) > 60
    assert not [" ".join(path) for path in ends if not stands(path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_command_and_option_that_a_page_names_is_there(page, tree):
    unknown = []
    for line in CALL.findall(page.read_text(encoding="utf-8").replace("\\\n", " ")):
        words = line.split()
        path = ()
        while len(path) < len(words) and (*path, words[len(path)]) in tree:
            path = (*path, words[len(path)])
        options = [word.strip("()[].,;:'\"").partition("=")[0] for word in words[len(path) :]]
        missing = [one for one in options if OPTION.fullmatch(one) and one not in tree[path][1]]
        if not path or missing:
            unknown.append((line, missing))
    assert not unknown
