"""Every Python block of the documentation runs, and every example, each in a process and a home of its own.

The README's starts an interpreter, as a reader does, and so do the trials in it; the others' processes are forked from
one that has imported what most of them do (:mod:`warm_trials`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_CODE = [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def run(warm, tmp_path):
    """Return a function that runs a script, in an interpreter of its own or forked from a warm one."""

    def run(path, *, cold=False):
        environment = {**os.environ, "VITRIFY_HOME": str(tmp_path / "home")}
        if cold:
            done = subprocess.run(
                [sys.executable, path], cwd=tmp_path, env=environment, capture_output=True, check=False
            )
        else:
            done = warm.script(path, tmp_path, environment)
        assert done.returncode == 0, done.stderr.decode()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_blocks_of_a_page_run_one_after_another(page, run, tmp_path):
    script = tmp_path / "page.py"
    script.write_text("\n".join(BLOCK.findall(page.read_text(encoding="utf-8"))))
    run(script, cold=page == PAGES[0])


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example, run):
    run(example)


@pytest.mark.slow
def test_a_script_that_fails_is_told_from_one_that_does_not(warm, tmp_path):
    (tmp_path / "fails.py").write_text("import missing_from_here\n")
    done = warm.script(tmp_path / "fails.py", tmp_path, dict(os.environ))
    assert done.returncode == 1
    assert b"missing_from_here" in done.stderr


@pytest.mark.slow
def test_the_documentation_builds_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "reference" / "python" / "index.html").exists()


def test_no_page_names_this_machine():
    for page in PAGES:
        assert not re.search(r"(?<![\w./])/(home|root|tmp|work)/", page.read_text(encoding="utf-8"))


def test_every_page_is_in_the_navigation_and_every_link_between_pages_leads_somewhere():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert str(page.relative_to(ROOT / "docs")) in navigation
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_exit_codes_in_the_documentation_are_those_of_the_error_tree():
    from vitrify.core import errors

    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    tree = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.VitrifyError)]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert documented == {0} | {kind.exit_code for kind in tree if kind is not errors.VitrifyError}


def test_every_command_is_documented():
    from vitrify.cli import group

    page = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert not [name for name in group.list_commands(None) if f"`vitrify {name}" not in page]


def test_the_table_of_formats_is_that_of_the_catalog():
    from vitrify.core.catalog import catalog
    from vitrify.inspection.abilities import markdown

    page = (ROOT / "docs/reference/formats.md").read_text(encoding="utf-8")
    _, _, behind = page.partition("<!-- formats: vitrify formats --markdown -->\n")
    table = behind.partition("<!-- end of formats -->")[0]
    assert table.strip() == markdown(catalog().rows("format")).strip(), (
        "put what `vitrify formats --markdown` prints between the two comments of docs/reference/formats.md"
    )


def test_the_page_of_conversions_is_made_from_what_was_seen():
    sys.path.insert(0, str(ROOT / "docs/generate"))
    try:
        import matrix
    finally:
        sys.path.pop(0)
    seen = json.loads((ROOT / "docs/reference/conversions.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/reference/conversions.md").read_text(encoding="utf-8")
    assert page == matrix.page(seen), "run python docs/generate/matrix.py"


def test_the_page_of_conversions_tries_every_road_that_there_is():
    from vitrify.transforms.planner import reachable

    seen = json.loads((ROOT / "docs/reference/conversions.json").read_text(encoding="utf-8"))
    for name, forms in seen["rows"].items():
        source, tried = forms[0]["target"], {form["target"]: form["road"]["steps"] for form in forms[1:]}
        roads = reachable(source, fidelity="lossy")
        assert tried.keys() == roads.keys(), f"python docs/generate/matrix.py {name!r}"
        for target, plan in roads.items():
            steps = [step["transform"] for step in tried[target]]
            assert steps == [step.transform for step in plan.steps], f"python docs/generate/matrix.py {name!r}"


def test_no_cell_of_the_page_of_conversions_is_without_a_verdict_or_a_reason():
    seen = json.loads((ROOT / "docs/reference/conversions.json").read_text(encoding="utf-8"))
    for forms in seen["rows"].values():
        for form in forms[1:]:
            assert form["verdict"] in {"proven", "refused", "not checked"}
            assert form["verdict"] == "proven" or form["why"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"), [("ONNX", "ort"), ("XGBoost", "onnx"), ("scikit-learn: data frame", "pfa")]
)
def test_a_cell_of_the_page_of_conversions_comes_out_again(name, target):
    sys.path.insert(0, str(ROOT / "docs/generate"))
    try:
        from sources import SOURCES
    finally:
        sys.path.pop(0)
    import vitrify
    from vitrify.checks.parity import Parity

    model, options = SOURCES[name]()
    _, form = vitrify.matrix(vitrify.save(model, "model", **options), targets=[target], checks=[Parity(rows=500)])
    seen = json.loads((ROOT / "docs/reference/conversions.json").read_text(encoding="utf-8"))
    (then,) = (one for one in seen["rows"][name] if one["target"] == target)
    assert form.verdict == then["verdict"]
