"""Plugins are looked for at the price of a look."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata

import pytest

from vitrify.core.entry_points import may_have

TEXT = "[console_scripts]\nx = y:z\n\n[acme.plugins]\na = b:c\n"


@pytest.fixture
def site(tmp_path, monkeypatch):
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), str(tmp_path / "missing")])
    return folder


@pytest.mark.parametrize("ending", ["dist-info", "egg-info"])
def test_a_package_that_has_them_is_seen_as_importlib_sees_it(site, ending):
    assert not may_have("acme.plugins")
    package = site / f"acme-1.0.{ending}"
    package.mkdir()
    (package / "METADATA").write_text("Name: acme\nVersion: 1.0\n")
    assert not may_have("acme.plugins")
    (package / "entry_points.txt").write_text(TEXT)
    assert may_have("acme.plugins")
    assert [point.name for point in metadata.entry_points(group="acme.plugins")] == ["a"]
    assert not may_have("other.plugins")


def test_spaces_in_the_name_of_a_group_hide_nothing(site):
    package = site / "acme-1.0.dist-info"
    package.mkdir()
    (package / "entry_points.txt").write_text("[ acme.plugins ]\n")
    assert may_have("acme.plugins")


def test_packages_in_a_zip_file_or_from_another_finder_may_have_them(site, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr("a", "b")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packages.zip")])
    assert may_have("acme.plugins")
    monkeypatch.setattr(sys, "path", [str(site)])

    class Finder:
        def find_distributions(self):
            """Find what lies elsewhere."""

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert may_have("acme.plugins")


@pytest.fixture
def backport():
    return pytest.importorskip("importlib_metadata")


def test_the_backport_s_finder_looks_where_python_s_does(backport, site, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, backport.MetadataPathFinder()])
    assert not may_have("acme.plugins")


def test_a_catalog_without_plugins_does_not_import_importlib_metadata():
    code = "import sys\nfrom vitrify.core.catalog import catalog\ncatalog()\nprint('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
