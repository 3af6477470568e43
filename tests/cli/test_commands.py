"""The command line from end to end, in this process: what is printed, and with which exit code it ends."""

from __future__ import annotations

import json
import textwrap

import numpy as np
import pandas as pd
import pytest

from vitrify.cli import main

COMMANDS = (
    *("save", "pack", "inspect", "scan", "ls", "predict", "convert", "verify"),
    *("matrix", "export", "import", "rm", "gc", "formats", "demo"),
)


@pytest.fixture
def run(capsys):
    """Return a function that runs one command and gives its exit code, standard output and standard error."""

    def call(*arguments):
        code = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def training(tmp_path, monkeypatch):
    """Return a training script whose module is forgotten after the test."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "train_cli.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            import pandas as pd
            from sklearn.linear_model import LogisticRegression

            X = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20) % 3})
            model = LogisticRegression().fit(X, np.where(X["a"] > 9, "yes", "no"))
            """
        )
    )
    monkeypatch.syspath_prepend(str(folder))
    return folder / "train_cli.py"


@pytest.fixture
def saved(run, training):
    code, out, err = run("save", f"{training}:model", "churn", "--example", f"{training}:X", "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def rows(tmp_path):
    frame = pd.DataFrame({"b": [0, 1, 2], "a": [1.0, 15.0, 3.5]})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "rows.json").write_text(frame.to_json(orient="records"))
    return tmp_path / "rows.csv"


def test_help_lists_every_command_with_its_purpose(run):
    code, out, _ = run("--help")
    assert code == 0
    for name in COMMANDS:
        assert f"\n  {name} " in out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_takes_json(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0
    assert "--json" in out


def test_a_saved_model_is_listed_inspected_and_verified(run, saved):
    assert saved["format"] == "skops"
    listed = json.loads(run("ls", "--json")[1])
    assert [(item["name"], item["digest"]) for item in listed] == [("churn:latest", saved["digest"])]
    shown = json.loads(run("inspect", "churn", "--json")[1])
    assert shown["digest"] == saved["digest"]
    assert len(shown["attestations"]) == 2
    code, out, _ = run("verify", "churn", "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "clean")


def test_the_same_as_text_for_people(run, saved):
    assert "churn:latest" in run("ls")[1]
    out = run("inspect", "churn")[1]
    for text in (saved["digest"], "Signature", "float64[batch]", "'no', 'yes'", "scikit-learn", "trial", "model.skops"):
        assert text in out
    assert "Inputs" not in out  # the signature says more of them
    assert "Inputs" in run("inspect", "churn", "--all")[1]
    assert "verify: clean" in run("verify", "churn")[1]


def test_predictions_come_from_csv_json_and_numpy_files(run, saved, rows):
    predictions = [json.loads(run("predict", "churn", path, "--json")[1]) for path in (rows, rows.with_suffix(".json"))]
    assert predictions[0] == predictions[1]
    assert [record["label"] for record in predictions[0]] == ["no", "yes", "no"]
    assert "yes" in run("predict", "churn", rows)[1]
    out = rows.with_name("out.npz")
    assert run("predict", "churn", rows, "-o", out)[0] == 0
    assert np.load(out)["label"].tolist() == ["no", "yes", "no"]


@pytest.mark.slow
def test_a_conversion_is_planned_proven_and_shown_with_its_picture(run, saved, rows, tmp_path):
    code, out, _ = run("convert", "churn", "--dry-run", "--json")
    assert code == 0
    planned = json.loads(out)
    assert [step["transform"] for step in planned["plan"]["steps"]] == ["skops-to-onnx"]
    assert planned["problems"] == []
    page = tmp_path / "proof.html"
    tolerance = ("--rtol", "1e-6", "--rows", "500")
    code, out, err = run("convert", "churn", "--to", "onnx", "--report", page, *tolerance)
    assert code == 0, err
    assert "sealed" in out
    assert "<svg" in page.read_text()
    assert json.loads(run("predict", "churn-onnx", rows, "--json")[1])[1]["label"] == "yes"


def test_export_remove_collect_import_brings_it_back(run, saved, tmp_path):
    archive = tmp_path / "churn.vit"
    assert run("export", "churn", archive)[0] == 0
    assert json.loads(run("rm", "churn", "--json")[1]) == {"removed": ["churn:latest"]}
    assert json.loads(run("gc", "--dry-run", "--json")[1])["removed"]
    assert json.loads(run("gc", "--json")[1])["bytes"] > 0
    assert run("inspect", "churn")[0] == 3
    assert json.loads(run("import", archive, "again", "--json")[1])["digest"] == saved["digest"]
    assert run("verify", "again")[0] == 0


def test_a_flipped_byte_is_exit_code_6_and_names_the_file(run, saved, home):
    blob = next(path for path in (home / "store" / "blobs" / "sha256").iterdir() if b"sklearn" in path.read_bytes())
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.chmod(0o644)
    blob.write_bytes(data)
    code, _, err = run("verify", "churn")
    assert code == 6
    assert "corrupt" in err
    assert run("verify")[0] == 11


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["predict", "nothing", "x.csv"], 2, "no such data file"),
        (["inspect", "nothing"], 3, "nothing"),
        (["save", "nowhere.py:model", "m", "--example", "nowhere.py:X"], 2, "nowhere"),
        (["inspect", "s3://bucket/x"], 2, "models are not opened there"),
        (["rm", "nothing"], 3, "nothing"),
        (["convert", "nothing", "--precision", "float8"], 2, "float8"),
        (["nonsense"], 2, "nonsense"),
    ],
)
def test_a_mistake_is_a_message_and_an_exit_code_without_a_traceback(run, arguments, code, text):
    got, out, err = run(*arguments)
    assert got == code
    assert text in err
    assert "Traceback" not in out + err


def test_an_error_can_be_had_as_json(run):
    code, _, err = run("inspect", "nothing", "--json")
    assert code == 3
    assert json.loads(err)["error"] == "ReferenceNotFoundError"


def test_formats_shows_the_map(run):
    shown = json.loads(run("formats", "--json")[1])
    assert {row["name"] for row in shown["format"]} >= {"skops", "onnx", "safetensors"}
    assert all(row["installed"] for row in shown["transform"])
    assert "hybrid, onnx, pmml" in run("formats")[1]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_can_be_had(run, shell):
    code, out, _ = run("completion", shell)
    assert code == 0
    assert "_VITRIFY_COMPLETE" in out


def test_names_in_the_store_are_completed(saved, home):
    from vitrify.cli._options import REFERENCE
    from vitrify.cli.inspect import command

    context = command.make_context("inspect", ["x"])
    items = REFERENCE.shell_complete(context, command.params[0], "chu")
    assert [item.value for item in items] == ["churn:latest"]


def test_a_model_file_is_described_and_packed_by_its_content(run, tmp_path, home):
    from safetensors.numpy import save_file

    path = tmp_path / "weights.bin"
    save_file({"w": np.arange(6.0)}, path)
    assert json.loads(run("inspect", path, "--json")[1])["format"] == "safetensors"
    packed = json.loads(run("pack", path, "weights", "--json")[1])
    assert packed["format"] == "safetensors"
    assert run("verify", "weights")[0] == 0
