"""``vitrify inspect`` of files and folders: what they say about themselves."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from onnx import TensorProto, helper
from safetensors.numpy import save_file
from samples import directories

from vitrify import stores
from vitrify.artifacts.pack import pack
from vitrify.cli import main
from vitrify.cli._about import show_about
from vitrify.trust.signing import attest


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = 0
        try:
            main(["inspect", *map(str, arguments)])
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


ABOUT = {
    "format": "some",
    "producer": "tool 1.2",
    "versions": {"tool": "1.2", "opset": 3},
    "inputs": [{"name": "x", "type": "float32", "shape": ["batch", None, 3]}],
    "outputs": [{"name": "y", "type": "float32", "shape": None}],
    "operators": {f"Op{number}": number + 1 for number in range(20)},
    "tensors": [{"name": f"t{number}", "type": "float32", "shape": [2], "bytes": 8} for number in range(30)],
    "parameters": 1234567,
    "bytes": 4096,
    "precision": {"float32": 3, "int8": 1},
    "metadata": {"author": "somebody", "nested": {"a": 1}},
    "needs": ["torch"],
    "code": True,
    "own": {"key": "value", "empty": {}},
    "list": [{"a": 1}, {"a": 2}],
}


def test_the_common_keys_are_tables_and_the_rest_is_listed(capsys):
    show_about(ABOUT)
    out = capsys.readouterr().out
    for text in (
        "tool 1.2",
        "1,234,567",
        "4.0 KiB",
        "[batch, ?, 3]",
        "unknown",
        "75.0%",
        "somebody",
        "nested.a",
        "own.key",
    ):
        assert text in out
    assert "using it runs code that is in it" in out
    assert "Operators: 210 of 20 kinds" in out
    assert out.index("Op19") < out.index("Op18")
    assert "Op0 " not in out
    assert "... and 5 more: --all" in out
    assert "t19" in out
    assert "t20" not in out
    assert "2 of {a}: --json" in out


def test_all_leaves_nothing_out(capsys):
    show_about(ABOUT, whole=True)
    out = capsys.readouterr().out
    assert "t29" in out
    assert "more: --all" not in out


def test_text_of_a_file_cannot_steer_the_terminal(capsys):
    nasty = "a\x1b[31m\nb\u202e"
    show_about(
        {"format": "x", "producer": nasty, "metadata": {nasty: nasty}, "own": {nasty: [nasty]}, "needs": [nasty]}
    )
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\x1b[31m\\nb" in out


@pytest.fixture
def weights(tmp_path):
    save_file({"w": np.zeros((2, 3), np.float32)}, tmp_path / "w.safetensors", metadata={"by": "me"})
    return tmp_path / "w.safetensors"


def test_a_file_is_shown_as_text_and_whole_as_json(run, weights):
    code, out, _ = run(weights)
    assert code == 0
    assert "[2, 3]" in out
    about = json.loads(run(weights, "--json")[1])
    assert about["format"] == "safetensors"
    assert about["tensors"][0]["shape"] == [2, 3]


def test_a_folder_is_shown(run, tmp_path):
    for name in ("a", "b"):
        save_file({name: np.zeros(3)}, tmp_path / f"{name}.safetensors")
    code, out, err = run(tmp_path)
    assert (code, err) == (0, "")
    assert "safetensors" in out


def test_a_graph_s_inputs_outputs_and_operators_are_shown(run, tmp_path):
    value = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph(
        [node], "g", [value("x", TensorProto.FLOAT, ["n", 2])], [value("y", TensorProto.FLOAT, ["n", 2])]
    )
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    out = run(tmp_path / "m.onnx")[1]
    for text in ("Inputs", "[n, 2]", "Outputs", "Relu"):
        assert text in out


def test_what_no_format_knows_is_an_error(run, tmp_path):
    (tmp_path / "x").write_bytes(b"\x00\x01")
    code, _, err = run(tmp_path / "x")
    assert code == 8
    assert "no format that is known" in err


def test_a_file_of_two_formats_is_shown_as_both_with_a_warning(run, tmp_path, monkeypatch):
    told = ({"format": "one", "producer": "a"}, {"format": "two", "producer": "b"})
    monkeypatch.setattr("vitrify.inspection.identify.describe_all", lambda path, name: told)
    (tmp_path / "x").write_bytes(b"x")
    code, out, err = run(tmp_path / "x")
    assert code == 0
    assert "several things at once: one and two" in err
    assert out.count("producer") == 2
    assert json.loads(run(tmp_path / "x", "--json")[1])["formats"] == list(told)


def test_nested_facts_are_words_and_not_python(capsys):
    show_about(
        {
            "format": "x",
            "quantisation": {"types": {"int8": 4}, "operators": ["Q", "DQ"]},
            "graphs": [{"name": "main", "operators": 4}],
            "params": {"steps": [["scale", {"class": "Scaler", "params": {"copy": True}}], ["fit", {"class": "Fit"}]]},
            "metrics": [["mse", None]],
        }
    )
    out = capsys.readouterr().out
    for text in (
        "types (int8 4), operators [Q, DQ]",
        "graphs.name",
        "steps.scale.params.copy",
        "steps.fit.class",
        "[mse, ?]",
    ):
        assert text in out
    assert "'" not in out
    assert "{" not in out


def test_a_pipe_gets_no_blanks_behind_the_words(run, weights):
    out = run(weights)[1]
    assert all(line == line.rstrip() for line in out.splitlines())


def test_what_a_file_does_not_say_has_no_key(run, tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "g", [helper.make_empty_tensor_value_info("x")], [])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    told = json.loads(run(tmp_path / "m.onnx", "--json")[1])
    assert not [key for key, value in told.items() if value in (None, "", [], {})]


def test_the_format_can_be_named(run, weights):
    assert run(weights, "--format", "safetensors")[0] == 0
    code, _, err = run(weights, "--format", "pickle")
    assert code == 7
    assert "not a whole pickle" in err
    code, _, err = run(weights, "--format", "nope")
    assert code == 2
    assert "no format is called 'nope'" in err


@pytest.mark.parametrize("name", ["absent", "absent.onnx", "./absent", "absent.tar"])
def test_what_is_neither_a_file_nor_an_artifact_is_said_to_be_neither(run, name):
    code, _, err = run(name)
    assert code == 3
    assert f"there is no file '{name}'" in err


def test_a_folder_that_is_no_model_says_what_it_holds_and_what_to_do(run, tmp_path):
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(b"\x00\x01")
    code, _, err = run(tmp_path)
    assert code == 8
    assert "a folder of 2 files (a.bin, b.bin)" in err
    assert "vitrify scan" in err


def test_a_pipe_is_said_to_be_no_file(run, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "link"):
        code, _, err = run(tmp_path / name)
        assert code == 2
        assert "a file or a folder was expected" in err


def test_a_stranger_s_tar_file_and_layout_are_shown_as_what_they_are(run, tmp_path):
    with tarfile.open(tmp_path / "some.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
    assert json.loads(run(tmp_path / "some.tar", "--json")[1])["format"] == "tar"
    layout = directories.SAMPLES["modelpack/layout"](tmp_path)
    told = json.loads(run(layout, "--json")[1])
    assert told["format"] == "modelpack"


def test_an_export_and_a_store_of_ours_are_artifacts_whatever_they_are_called(run, weights, tmp_path, monkeypatch):
    artifact = pack(weights, "w")
    stores.export(artifact.store, artifact.digest, tmp_path / "w.bin")
    assert json.loads(run(tmp_path / "w.bin", "--json")[1])["digest"] == str(artifact.digest)
    monkeypatch.chdir(artifact.store.root.parent)
    assert json.loads(run(artifact.store.root.name, "--json")[1])["digest"] == str(artifact.digest)


def test_evidence_is_told_by_kind_and_verdict_and_a_stranger_s_by_its_whole_type(run, weights):
    artifact = pack(weights, "w")
    for kind, said in (
        ("https://slsa.dev/provenance/v1", {"buildDefinition": {}}),
        ("urn:vitrify:attestation:parity:v1", {"reports": [{"verdict": "clean"}, {"verdict": "clean"}]}),
        ("urn:acme:review:v1", {"verdict": "found", "reports": "none"}),
    ):
        attest(artifact.store, artifact.digest, kind, said)
    _, _, evidence = run("w")[1].partition("Evidence\n")
    assert [line.split() for line in evidence.splitlines()[-3:]] == [
        ["https://slsa.dev/provenance/v1"],
        ["parity", "clean"],
        ["urn:acme:review:v1", "found"],
    ]


def test_a_mistake_on_the_command_line_is_json_too(run):
    code, out, err = run("--json", "--nope")
    assert (code, out) == (2, "")
    told = json.loads(err)
    assert told["error"] == "UsageError"
    assert "--nope" in told["message"]
    assert told["remedy"] == "vitrify inspect --help"


def test_a_file_that_cannot_be_read_is_an_error_without_a_traceback(run, weights, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied", str(weights))

    monkeypatch.setattr("vitrify.reading.files.LocalFiles.map", refuse)
    code, _, err = run(weights)
    assert code == 5
    assert err.splitlines() == [f"error: {weights}: Permission denied", "-> check the path and its rights"]


def test_a_reader_who_leaves_is_no_finding_and_no_error(tmp_path):
    save_file({f"tensor {number}": np.zeros(1) for number in range(4000)}, tmp_path / "many.safetensors")
    call = [sys.executable, "-c", "from vitrify.cli import main; main()", "inspect", "--all", "many.safetensors"]
    with subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        err = running.stderr.read()
    assert (running.returncode, err) == (141, b"")
