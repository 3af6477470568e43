"""What all tests share: a store of their own, and settings for Hypothesis."""

from __future__ import annotations

import compileall
import importlib
import os
import sys
import textwrap
from pathlib import Path

import pytest
import warm_trials
from hypothesis import HealthCheck, settings

# Two workers on two cores are busy enough, and threads that wait for each other burn what the others need.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTRAOP_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile(
    "vitrify",
    deadline=None,  # a shared machine stalls; time is measured in benchmarks, never in tests
    max_examples=int(os.environ.get("VITRIFY_EXAMPLES", "50")),
    derandomize="CI" in os.environ,  # what CI says of a change is of the change; on a desk, chance looks further
    # One suite's tests run in several classes: that is what a conformance suite is for.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)
settings.load_profile("vitrify")


SOURCE = Path(__file__).parent.parent / "src" / "vitrify"


def pytest_configure(config):
    """Compile the sources once: hundreds of interpreters start here, and where none may keep bytecode, each would."""
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        compileall.compile_dir(SOURCE, quiet=2)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Give every test a home of its own, so that no test sees the user's store."""
    folder = tmp_path / "vitrify-home"
    monkeypatch.setenv("VITRIFY_HOME", str(folder))
    return folder


@pytest.fixture(scope="session")
def warm():
    """Return what trials are started with here; it ends with the session."""
    trials = warm_trials.WarmTrials()
    yield trials
    trials.close()


@pytest.fixture(autouse=True)
def trials(request, warm, monkeypatch):
    """Let the clean processes of trials be forked from warm ones, unless a test is marked ``cold``."""
    if not request.node.get_closest_marker("cold"):
        monkeypatch.setattr("vitrify.artifacts.trial.subprocess", warm)


@pytest.fixture
def store(home):
    """Return the store that the verbs use by default."""
    from vitrify import stores

    return stores.default_store()


@pytest.fixture
def side_module(tmp_path, monkeypatch):
    """Return a function that makes a module importable here, as a training script's own directory does."""
    folder = tmp_path / "training"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    made = []

    def make(name, source):
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        made.append(name)
        return importlib.import_module(name)

    yield make
    for name in made:
        sys.modules.pop(name, None)
