"""Files that name code on their own: configurations, indices, templates and graphs as text, wherever they lie."""

from __future__ import annotations

import json

import pytest

from vitrify.formats._requirements import foreign, lines, of_conda
from vitrify.formats.graph_text import GraphText
from vitrify.formats.jinja import Jinja
from vitrify.formats.weights_index import WeightsIndex
from vitrify.inspection.scan import scan_files
from vitrify.reading.files import HeldFiles
from vitrify.reading.json import MAX_PEEKED, peek

LAYER = {"class_name": "Lambda", "config": {"function": "system", "module": "os", "function_type": "function"}}
MODEL = {"class_name": "Sequential", "config": {"layers": [LAYER]}}


def look(data, name="file.json"):
    return scan_files(HeldFiles({name: memoryview(data if isinstance(data, bytes) else data.encode())}))


def rules(data, name="file.json"):
    return {finding.rule for finding in look(data, name).findings}


WRITTEN = {
    "plain": json.dumps(MODEL),
    "escaped keys": json.dumps(MODEL).replace("class_name", "class\\u005fname").replace('"config"', '"\\u0063onfig"'),
    "with NaN": json.dumps({"x": float("nan"), **MODEL}),
    "with a byte order mark": b"\xef\xbb\xbf" + json.dumps(MODEL).encode(),
    "UTF-16": json.dumps(MODEL).encode("utf-16"),
    "UTF-16 without a mark": json.dumps(MODEL).encode("utf-16-be"),
    "UTF-32": json.dumps(MODEL).encode("utf-32"),
    "with half a character": json.dumps({"x": "\ud800", **MODEL}),
    "UTF-16 behind much else": json.dumps({"x": "y" * MAX_PEEKED, **MODEL}).encode("utf-16"),
    "behind much else": json.dumps({"x": "y" * MAX_PEEKED, "z": float("inf"), **MODEL}),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_configuration_is_known_however_it_is_written(name):
    assert look(WRITTEN[name]).verdict != "clean"


@pytest.mark.parametrize("text", ["[]", "{", '"class_name"', '{"class_name": 1', "", "{}", '{"config": {}}'])
def test_what_is_no_object_with_these_keys_has_none_of_them(text):
    assert len(peek(memoryview(text.encode()), "class_name", "config")) < 2


@pytest.mark.parametrize("location", ["../x", "/x", "a\\..\\..\\x", "C:x", "~/x", "https://x/y", "", "a\0b"])
def test_an_index_that_leads_out_of_its_folder_is_found(location):
    index = json.dumps({"weight_map": {"a": "model.bin", "b": [location]}})
    assert rules(index) == {"path"}


def test_an_index_says_how_many_tensors_are_where():
    index = json.dumps({"weight_map": {"a": "1.bin", "b": ["1.bin", "2.bin"]}}).encode()
    assert WeightsIndex().describe(HeldFiles({"i": memoryview(index)}), {"file": "i"}) == {
        "files": {"1.bin": 2, "2.bin": 1}
    }


@pytest.mark.parametrize("start", ["{% if x %}", "\n {{ x }}", "\ufeff{# words #}"])
def test_text_that_begins_as_a_template_is_one(start):
    assert Jinja().detect(HeldFiles({"notes.txt": memoryview(start.encode())}))
    assert "template" in rules(start + "{{ x.__class__ }}", "notes.txt")


HONEST = """
numpy
torch>=2.0,<3  # words
scikit-learn==1.5.0 ; python_version < "3.13"
ray[default,tune] ~= 2.9
-r other.txt
-c constraints.txt
foo==1.0 \\
    --hash=sha256:abc
"""
FOREIGN = [
    "evil @ https://example.org/x.zip",
    "git+https://example.org/x",
    "--index-url https://example.org",
    "--extra-index https://example.org",
    "-i https://example.org",
    "-e .",
    "./evil",
    "evil-1.0-py3-none-any.whl",
    "-r ../other.txt",
    "file:evil",
    "${EVIL}",
]


def test_what_is_installed_by_name_and_version_is_honest():
    assert list(foreign(lines(HONEST))) == []


@pytest.mark.parametrize("entry", FOREIGN)
def test_what_is_installed_from_elsewhere_is_not(entry):
    assert list(foreign(lines(f"numpy\n{entry}\n"))) == [entry]


def test_a_conda_environment_is_asked_for_both_of_its_installers():
    environment = {"channels": ["conda-forge", "https://x/y"], "dependencies": ["pip", {"pip": ["numpy", "git+x"]}]}
    pip, own = of_conda(environment)
    assert (list(foreign(pip)), own) == (["git+x"], ["https://x/y"])


@pytest.mark.parametrize("operator", ['"PyFunc"', "'Py' \"Func\"", "'\\120y\\x46unc'", "# op\n 'PyFunc'"])
def test_an_operator_in_text_is_read_as_the_library_reads_it(operator):
    text = f"node {{\n  op : {operator} name: 'a'\n}}\n".encode()
    about = GraphText().describe(HeldFiles({"g": memoryview(text)}), {"file": "g"})
    assert about["operators"] == {"PyFunc": 1}
    assert rules(text) == {"python-operator", "unread-program"}


def test_a_graph_as_text_may_call_its_own_functions_and_is_still_not_clean():
    text = "library { function { signature { name: 'f' } node_def { op: 'Relu' } } } node { op: 'f' }\n"
    assert rules(text) == {"unread-program"}
