"""``vitrify scan`` from end to end: what is printed, and with which exit status it ends."""

from __future__ import annotations

import json
import os
import pickle
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from vitrify.cli import main

ROOT = Path(__file__).parent.parent.parent


class Payload:
    def __reduce__(self):
        return (os.system, ("touch marker",))


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(["scan", *map(str, arguments)])
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_file({"w": np.zeros(3)}, tmp_path / "clean.safetensors")
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Payload()))
    (tmp_path / "unknown.bin").write_bytes(b"\x00\x01\x02\x03")
    yield tmp_path
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["clean.safetensors"], 0),
        (["evil.pkl"], 1),
        (["unknown.bin"], 2),
        (["missing"], 2),
        (["clean.safetensors", "unknown.bin", "evil.pkl"], 1),
        (["clean.safetensors", "missing"], 2),
        (["."], 1),
    ],
)
def test_the_exit_status_says_clean_found_or_not_checked(run, files, names, status):
    assert run(*names)[0] == status


def test_a_person_reads_verdict_place_message_rule_and_what_to_do(run, files):
    out = run("evil.pkl", "unknown.bin", "clean.safetensors")[1]
    assert re.search(r"^found  evil\.pkl  \(pickle\)$", out, re.MULTILINE)
    assert re.search(r"^  - evil\.pkl.*posix\.system.*\[untrusted-global\]$", out, re.MULTILINE)
    assert re.search(r"^  - not checked: unknown\.bin: .*\[unknown-format\]$", out, re.MULTILINE)
    assert "    -> " in out
    assert out.splitlines()[-1] == "3 scanned: 1 clean, 1 found, 1 not checked"


def test_quiet_prints_only_what_is_not_clean(run, files):
    out = run("clean.safetensors", "evil.pkl", "--quiet")[1]
    assert "evil.pkl" in out
    assert "clean.safetensors" not in out
    assert run("clean.safetensors", "--quiet")[1] == "1 scanned: 1 clean\n"


def test_json_is_one_object_a_file(run, files):
    lines = [json.loads(line) for line in run("clean.safetensors", "evil.pkl", "missing", "--json")[1].splitlines()]
    assert [(line["path"], line["verdict"]) for line in lines] == [
        ("clean.safetensors", "clean"),
        ("evil.pkl", "found"),
        ("missing", "not checked"),
    ]
    assert [len(line["findings"]) > 0 for line in lines] == [False, True, True]
    assert lines[1]["findings"][0]["rule"] == "untrusted-global"


def test_sarif_goes_to_a_file_or_instead_of_the_text(run, files):
    status, out, _ = run("evil.pkl", "--sarif", "-")
    assert status == 1
    assert json.loads(out)["runs"][0]["results"][0]["ruleId"] == "untrusted-global"
    status, out, _ = run("evil.pkl", "clean.safetensors", "--sarif", "report.sarif")
    assert "found" in out
    assert json.loads(Path("report.sarif").read_text())["version"] == "2.1.0"


def test_sarif_of_nothing_found_is_a_log_without_results(run, files):
    assert run("clean.safetensors", "--sarif", "report.sarif")[0] == 0
    assert json.loads(Path("report.sarif").read_text())["runs"][0]["results"] == []


def test_what_is_allowed_by_its_exact_name_is_shown_and_does_not_fail(run, files):
    findings = json.loads(run("evil.pkl", "--json")[1])["findings"]
    names = [option for one in findings for option in ("--allow", one["subject"])]
    status, out, _ = run("evil.pkl", *names)
    assert status == 0
    assert "allowed:" in out
    assert run("evil.pkl", "--allow", "posix")[0] == 1


def test_the_policy_of_the_folder_is_taken_and_another_can_be_named(run, files):
    Path("vitrify-scan.toml").write_text("fail-on = 'found'\nskip = ['evil.*']\n")
    status, out, err = run("evil.pkl", "unknown.bin")
    assert status == 0
    assert "skipped  evil.pkl" in out
    assert "policy: vitrify-scan.toml of this folder" in err
    assert "1 not checked, 1 skipped" in out
    line = json.loads(run("evil.pkl", "--json")[1])
    assert (line["verdict"], line["skipped"]) == ("not checked", True)
    Path("other.toml").write_text("")
    assert run("evil.pkl", "--policy", "other.toml")[0] == 1


def test_a_policy_with_a_mistake_is_an_error(run, files):
    Path("vitrify-scan.toml").write_text("allow-all = true\n")
    status, out, err = run("clean.safetensors")
    assert (status, out) == (2, "")
    assert "unknown key 'allow-all'" in err


@pytest.mark.parametrize("separator", ["\n", "\0"])
def test_names_come_from_a_file_too(run, files, separator):
    Path("list").write_text(separator.join(["clean.safetensors", "evil.pkl", ""]))
    out = run("--files-from", "list", "--json")[1]
    assert [json.loads(line)["path"] for line in out.splitlines()] == ["clean.safetensors", "evil.pkl"]


def test_nothing_named_is_an_error(run, files):
    status, _, err = run()
    assert status == 2
    assert "name a file" in err


@pytest.mark.slow
def test_several_processes_say_the_same_in_the_same_order(run, files):
    for number in range(10):
        Path(f"{number}.pkl").write_bytes(pickle.dumps(Payload() if number % 2 else [number]))
    assert run(".", "--jobs", "2", "--json") == run(".", "--json")


def test_a_file_s_text_cannot_steer_the_terminal(run, files):
    Path("x\x1b[2Jy\n.pkl").write_bytes(b"cos\x1b[31m\nsystem\n(S'x'\ntR.")
    out = run("x\x1b[2Jy\n.pkl")[1]
    assert "\x1b" not in out
    assert "\\x1b[2Jy\\n.pkl" in out


def hook():
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    return dict(re.findall(r"^ +(\w+): (.+)$", text, re.MULTILINE))


def test_the_pre_commit_hook_runs_what_it_declares(files):
    declared = hook()
    program, *arguments = shlex.split(declared["entry"])
    assert program == "vitrify"
    pattern = re.compile(declared["files"].strip("'"))
    names = sorted(path.name for path in files.iterdir() if pattern.search(path.name))
    assert names == ["clean.safetensors", "evil.pkl", "unknown.bin"]
    command = [sys.executable, "-c", "from vitrify.cli import main; main()", *arguments]
    done = subprocess.run([*command, *names], cwd=files, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "evil.pkl" in done.stdout
    assert "clean.safetensors" not in done.stdout
    done = subprocess.run([*command, "clean.safetensors"], cwd=files, capture_output=True, text=True, check=False)
    assert done.returncode == 0


def test_a_scan_imports_no_framework_and_nothing_that_draws(files):
    code = """
import sys
from vitrify.cli import main

try:
    main(["scan", "evil.pkl"])
except SystemExit:
    print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=files, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert not loaded & {"numpy", "onnx", "sklearn", "torch", "rich", "google", "tensorflow", "onnxruntime", "h5py"}


def test_a_name_that_is_no_text_is_no_obstacle(run, files):
    name = os.fsdecode(b"\xff.pkl")
    Path(name).write_bytes(pickle.dumps(Payload()))
    assert run(name)[0] == 1
    assert json.loads(run(name, "--json")[1])["path"] == name
    assert "%FF.pkl" in run(name, "--sarif", "-")[1]


def test_an_artifact_in_the_store_is_scanned_by_its_name_unless_a_file_lies_there(run, files):
    import vitrify

    vitrify.pack(files / "clean.safetensors", "weights")
    code, out, _ = run("weights")
    assert (code, out.split()[:2]) == (0, ["clean", "weights"])
    assert "safetensors" in out
    (files / "weights").write_bytes(pickle.dumps(Payload()))
    assert run("weights")[0] == 1
    assert run("weights:latest", "evil.pkl")[0] == 1


def test_a_report_is_kept_as_evidence_where_that_is_asked(run, files):
    import vitrify
    from vitrify.core.attestation import SCAN

    def kept():
        statements = vitrify.open("evidence").attestations
        return [one.predicate["verdict"] for one in statements if one.predicate_type == SCAN]

    vitrify.save({"w": np.zeros(3)}, "evidence")
    assert run("evidence")[0] == 0
    assert kept() == []
    assert run("evidence", "--attest")[0] == 0
    assert kept() == ["clean"]
