from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vitrify.artifacts import code
from vitrify.core.document import Code
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.reading.files import LocalFiles


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Return a function that writes modules outside any distribution and makes them importable for one test."""
    folder = tmp_path / "training"
    monkeypatch.syspath_prepend(str(folder))
    known = set(sys.modules)

    def write(sources):
        for path, source in sources.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return folder

    yield write
    for name in set(sys.modules) - known:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def finders():
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before


def test_the_module_of_a_class_is_bundled_with_all_that_it_imports_of_the_users(modules):
    modules(
        {
            "alpha_mod.py": "import beta_pkg.inner\nfrom gamma_mod import g\nimport json, numpy\nclass A: ...\n",
            "beta_pkg/__init__.py": "",
            "beta_pkg/inner.py": "from . import sibling\n",
            "beta_pkg/sibling.py": "",
            "gamma_mod.py": "g = 1\n",
            "unused_mod.py": "",
        }
    )
    importlib.import_module("alpha_mod")
    importlib.import_module("unused_mod")
    found = code.bundle(["alpha_mod.A"])
    assert list(found) == ["alpha_mod", "beta_pkg", "beta_pkg.inner", "beta_pkg.sibling", "gamma_mod"]


@pytest.mark.parametrize("line", ["from . import b", "from .. import b", "from ..deep import b"])
def test_an_import_that_leads_beyond_the_top_package_brings_nothing(modules, line):
    modules({"delta_mod.py": f"try:\n    {line}\nexcept ImportError:\n    b = None\nclass D: ...\n"})
    importlib.import_module("delta_mod")
    assert list(code.bundle(["delta_mod.D"])) == ["delta_mod"]


def test_modules_of_distributions_and_of_the_standard_library_are_not_bundled():
    assert code.bundle(["numpy.ndarray", "json.JSONDecoder", "vitrify.core.digest.Digest"]) == {}


def test_what_cannot_be_bundled_is_listed_all_at_once_with_what_to_do():
    with pytest.raises(UnsupportedModelError) as caught:
        code.bundle(["__main__.Thing", "nowhere_at_all.Other"])
    assert [problem.place for problem in caught.value.problems] == ["__main__.Thing", "nowhere_at_all.Other"]
    assert all(problem.remedy == "move it to a module of its own" for problem in caught.value.problems)


def test_a_module_lies_in_the_artifact_where_its_name_says():
    assert code.artifact_path("a.b", Path("x/b.py")) == "code/a/b.py"
    assert code.artifact_path("a", Path("x/a/__init__.py")) == "code/a/__init__.py"


def test_bundled_packages_are_imported_from_the_artifacts_bytes_alone(tmp_path):
    sources = {
        "zeta_pkg": "from .part import value\n",
        "zeta_pkg.part": "import zeta_helper\nvalue = zeta_helper.answer()\n",
        "zeta_helper": "def answer():\n    return 42\n",
    }
    places = {"zeta_pkg": "code/zeta_pkg/__init__.py", "zeta_pkg.part": "code/p.py", "zeta_helper": "code/h.py"}
    for module, source in sources.items():
        (tmp_path / module).write_text(source)
    script = f"""
        from pathlib import Path
        from vitrify.artifacts import code
        from vitrify.reading.files import LocalFiles
        from vitrify.core.document import Code
        places = {places!r}
        files = LocalFiles({{place: Path({str(tmp_path)!r}, module) for module, place in places.items()}})
        code.install(Code(modules=places), files)
        import zeta_pkg
        print(zeta_pkg.value, zeta_pkg.part.__spec__.origin)
    """
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["42", "None"]


def test_a_module_already_imported_with_other_source_is_a_clear_error(modules, tmp_path, finders):
    modules({"delta_mod.py": "x = 1\n"})
    importlib.import_module("delta_mod")
    (tmp_path / "other.py").write_text("x = 2\n")
    with pytest.raises(UsageError, match="'delta_mod' is already imported here with other source"):
        code.install(
            Code(modules={"delta_mod": "code/delta_mod.py"}), LocalFiles({"code/delta_mod.py": tmp_path / "other.py"})
        )


def test_a_module_already_imported_with_the_same_source_is_kept(modules, finders):
    folder = modules({"epsilon_mod.py": "x = 1\n"})
    module = importlib.import_module("epsilon_mod")
    code.install(Code(modules={"epsilon_mod": "code/e.py"}), LocalFiles({"code/e.py": folder / "epsilon_mod.py"}))
    assert importlib.import_module("epsilon_mod") is module
