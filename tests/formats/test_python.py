from __future__ import annotations

import functools
import json
import math
import statistics

import numpy as np
import pytest

from vitrify.core.errors import MalformedError, MissingDependencyError, UnsupportedModelError, UntrustedCodeError
from vitrify.core.protocols import Allow
from vitrify.formats.python import REFERENCE, Python
from vitrify.inspection.identify import files_at

FORMAT = Python()
SOURCE = """
import functools

OPENED = []

def double(x):
    return x * 2

def logged(function):
    @functools.wraps(function)
    def call(x):
        return function(x)
    return call

@logged
def decorated(x):
    return x * 3

def maker(factor):
    def call(x):
        return x * factor
    return call

made = maker(4)
nameless = lambda x: x
hidden = double

def double_again(x):
    return x

class Model:
    number = 5
    class Inner:
        def __call__(self, x):
            return x
    def __call__(self, x):
        return x * self.number
    def method(self, x):
        return x
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "own_functions.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "own_functions", raising=False)
    import own_functions

    return own_functions


@pytest.mark.parametrize("name", ["double", "decorated", "Model", "Model.Inner"])
def test_what_has_a_name_in_a_module_comes_back_and_is_code(name, module, saved):
    original = functools.reduce(getattr, name.split("."), module)
    written, files, loaded = saved(FORMAT, original)
    assert loaded is original
    assert written.entry == {"object": f"own_functions:{name}"}
    assert written.names == (f"own_functions.{name}",)
    assert files.names() == (REFERENCE,)
    assert FORMAT.describe(files, {}) == written.entry


def test_nothing_is_imported_before_it_is_allowed(saved, module, monkeypatch):
    _, files, _ = saved(FORMAT, module.double)
    monkeypatch.delitem(__import__("sys").modules, "own_functions")
    with pytest.raises(UntrustedCodeError) as caught:
        FORMAT.read(files, {}, Allow.of(["own_functions.other"]))
    assert caught.value.names == ("own_functions.double",)
    assert FORMAT.describe(files, {}) == {"object": "own_functions:double"}
    assert "own_functions" not in __import__("sys").modules


@pytest.mark.parametrize(
    ("pick", "message", "remedy"),
    [
        (lambda module: module.nameless, "lambda", "give it a name"),
        (lambda module: module.made, "closure over factor", "attributes of a class"),
        (lambda module: module.Model(), "instance", "pickle"),
        (lambda module: module.Model().method, "bound to a Model", "pickle"),
        (lambda module: functools.partial(module.double), "instance", "pickle"),
    ],
)
def test_what_no_other_process_could_find_is_refused_with_a_remedy(pick, message, remedy, module, saved):
    with pytest.raises(UnsupportedModelError, match=message) as caught:
        saved(FORMAT, pick(module))
    assert remedy in caught.value.problems[0].remedy


def test_what_is_defined_in_a_function_is_refused(saved):
    def local(x):
        return x

    with pytest.raises(UnsupportedModelError, match="inside a function"):
        saved(FORMAT, local)


def test_what_is_defined_in_the_main_script_is_refused(module, saved, monkeypatch):
    monkeypatch.setattr(module.double, "__module__", "__main__")
    with pytest.raises(UnsupportedModelError, match="main script") as caught:
        saved(FORMAT, module.double)
    assert "module of its own" in caught.value.problems[0].remedy


def test_a_function_that_was_replaced_in_its_module_is_refused(module, saved, monkeypatch):
    original = module.double
    monkeypatch.setattr(module, "double", module.double_again)
    with pytest.raises(UnsupportedModelError, match="under that name"):
        saved(FORMAT, original)


def test_a_module_that_is_not_there_is_a_missing_dependency(saved, module, monkeypatch):
    _, files, _ = saved(FORMAT, module.double)
    files.path(REFERENCE).write_text(json.dumps({"object": "not_there_at_all:double"}))
    with pytest.raises(MissingDependencyError, match="not_there_at_all"):
        FORMAT.read(files, {}, Allow.of(["not_there_at_all.double"]))


def test_a_reference_to_what_cannot_be_called_is_malformed(saved, module):
    _, files, _ = saved(FORMAT, module.double)
    files.path(REFERENCE).write_text(json.dumps({"object": "own_functions:OPENED"}))
    with pytest.raises(MalformedError, match="called"):
        FORMAT.read(files, {}, Allow.of(["own_functions.OPENED"]))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"object": 3}',
        '{"object": "no_colon"}',
        '{"object": "a:b:c"}',
        '{"object": ".a:b"}',
        '{"object": "a:b()"}',
        '{"object": "a b:c"}',
        '{"object": ":"}',
    ],
)
def test_what_is_no_reference_is_malformed(content, saved, module):
    _, files, _ = saved(FORMAT, module.double)
    files.path(REFERENCE).write_text(content)
    with pytest.raises(MalformedError):
        FORMAT.read(files, {}, Allow())


def test_only_references_are_detected(tmp_path):
    good = tmp_path / "good.json"
    good.write_text('{"object": "a:b"}')
    bad = tmp_path / "bad.json"
    bad.write_text('{"learner": {}}')
    assert FORMAT.detect(files_at(good))
    assert not FORMAT.detect(files_at(bad))
    assert not FORMAT.detect(files_at(tmp_path))


@pytest.mark.parametrize("function", [statistics.fmean, np.mean, math.fsum])
def test_functions_of_installed_modules_load_in_a_new_process(function, saved, elsewhere):
    written, files, _ = saved(FORMAT, function)
    answer = elsewhere(FORMAT, files, "__call__", [1.0, 2.0], written.names)
    assert np.frombuffer(answer) == function([1.0, 2.0])
