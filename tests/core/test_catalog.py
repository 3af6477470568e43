"""The catalog: rows are data, nothing is imported before it is used, third parties join by entry point."""

import sys
from dataclasses import replace

import pytest

from vitrify.core.catalog import Catalog, catalog
from vitrify.core.errors import MissingDependencyError, UsageError
from vitrify.core.row import Row
from vitrify.core.rows import BUILTIN

ROW = Row(kind="store", name="memory", target="acme.plugin:Memory")


def test_built_in_rows_make_a_catalog_and_name_modules_of_their_own_room():
    rooms = {"format": "formats", "runtime": "runtimes", "store": "stores", "container": "containers"}
    for row in Catalog(BUILTIN).rows("container"):
        assert row.target.startswith(f"vitrify.{rooms[row.kind]}.")
    assert [row.name for row in Catalog(BUILTIN).rows("container")] == sorted(
        ["dict", "numpy", "pandas", "polars", "records", "torch", "tuple"]
    )


def test_a_plugin_is_made_once():
    assert catalog().load("container", "dict") is catalog().load("container", "dict")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(UsageError, match=r"no container is called 'excel' \(there are: dict, numpy"):
        catalog().row("container", "excel")


@pytest.mark.parametrize("row", [replace(ROW, target="acme.other:Memory"), ROW])
def test_two_plugins_of_one_kind_and_name_are_an_error_that_names_both(row):
    with pytest.raises(UsageError, match=f"acme.plugin:Memory and {row.target}"):
        Catalog([ROW, row])


def test_one_name_may_stand_in_two_kinds():
    other = replace(ROW, kind="check")
    assert list(Catalog([ROW, other]).rows("check")) == [other]


@pytest.mark.parametrize("change", [{"target": "acme.plugin.Memory"}, {"fidelity": "perfect"}])
def test_a_row_that_cannot_be_meant_is_refused(change):
    with pytest.raises(UsageError, match="not a valid row"):
        Catalog([replace(ROW, **change)])


@pytest.mark.parametrize(
    ("extra", "command"), [("acme", "pip install 'vitrify[acme]'"), (None, "pip install 'no_such_module'")]
)
def test_a_missing_library_is_an_error_with_the_install_command(extra, command):
    row = replace(ROW, requires=("sys", "no_such_module"), extra=extra)
    assert not row.installed()
    with pytest.raises(MissingDependencyError, match="no_such_module, which is not installed") as caught:
        row.load()
    assert caught.value.remedy == command


def test_asking_whether_a_library_is_there_does_not_import_it(tmp_path, monkeypatch):
    (tmp_path / "costly_library.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    assert replace(ROW, requires=("costly_library",)).installed()
    assert "costly_library" not in sys.modules


class Base:
    """Stands for a library's class."""


class Derived(Base):
    """Stands for a user's subclass of it."""


class Special(Base):
    """Stands for a subclass that has a plugin of its own."""


def test_the_most_derived_class_decides_which_plugin_handles_an_object():
    base = replace(ROW, name="base", types=(f"{__name__}.Base",))
    special = replace(ROW, name="special", types=(f"{__name__}.Special",))
    rows = Catalog([special, base])
    assert rows.for_object("store", Base()) is base
    assert rows.for_object("store", Derived()) is base
    assert rows.for_object("store", Special()) is special
    assert rows.for_object("store", 3) is None
    assert rows.for_object("check", Base()) is None


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a distribution with an entry point, as pip would lay it out."""

    def _install(name, source, *, version="1.2"):
        folder = tmp_path / name
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[vitrify.plugins]\n{name} = {name}_plugin:ROWS\n")
        (folder / f"{name}_plugin.py").write_text(source)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, f"{name}_plugin", raising=False)

    return _install


PLUGIN = """
from vitrify.core.row import Row

class Memory:
    pass

ROWS = [Row(kind="store", name="{name}", target="{module}:Memory", summary="in memory")]
"""


def test_an_installed_package_adds_its_rows(install):
    install("acme", PLUGIN.format(name="memory", module="acme_plugin"))
    rows = Catalog(BUILTIN).with_plugins()
    assert rows.row("store", "memory").summary == "in memory"
    assert type(rows.load("store", "memory")).__name__ == "Memory"
    assert {row.name for row in rows.rows("store")} == {"memory", "oci-layout"}


@pytest.mark.parametrize(
    "source",
    ["raise RuntimeError('broken')", "import no_such_module", "ROWS = 3", "ROWS = ['memory']", "", "this is no Python"],
    ids=["raises", "misses a library", "no list", "no rows", "no such object", "no Python"],
)
def test_a_broken_package_is_left_out_with_a_warning_that_names_it(install, source):
    install("broken", source)
    install("sound", PLUGIN.format(name="memory", module="sound_plugin"))
    with pytest.warns(UserWarning, match=r"'broken' of broken==1\.2 was left out"):
        rows = Catalog(BUILTIN).with_plugins()
    assert rows.row("store", "memory").target == "sound_plugin:Memory"


def test_a_package_that_takes_a_name_that_is_taken_is_an_error(install):
    install("rude", PLUGIN.format(name="oci-layout", module="rude_plugin"))
    with pytest.raises(UsageError, match="two plugins are called store 'oci-layout'"):
        Catalog(BUILTIN).with_plugins()
