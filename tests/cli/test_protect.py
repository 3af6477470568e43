"""``vitrify protect``, as somebody types it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from transforms.protect.conftest import network, rows

import vitrify
from vitrify.cli.inspect import command as inspect
from vitrify.cli.ls import command as ls
from vitrify.cli.protect import command
from vitrify.cli.verify import command as verify
from vitrify.core.errors import DeniedError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a command in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def typed(*words, of=command, **more):
        done = CliRunner().invoke(of, words, **more)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done

    return typed


def test_encrypted_for_a_key_and_opened_with_it(run, store, monkeypatch):
    source = vitrify.save(network(), "m", example=rows())
    recipient = json.loads(run("keygen", "me.pem", "--json").output)["recipient"]
    done = run("encrypt", "m", "--to", recipient)
    assert "m-encrypted:latest" in done.output
    assert str(source.digest) in done.output
    with pytest.raises(DeniedError):
        vitrify.load("m-encrypted")
    assert "encrypted" in (shown := run("m-encrypted", of=inspect).output)
    assert "x25519:" in shown
    assert "MatMul" not in shown
    assert json.loads(run("m-encrypted", "--json", of=inspect).output)["content"] == {"format": "onnx"}
    assert run("m-encrypted", of=verify).exit_code == 11
    assert "m-encrypted" in run(of=ls).output
    monkeypatch.setenv("VITRIFY_IDENTITY", "me.pem")
    assert run("m-encrypted", of=verify).exit_code == 0
    assert "MatMul" in run("m-encrypted", of=inspect).output
    assert np.array_equal(vitrify.load("m-encrypted").predict(rows())["y"], source.session().predict(rows())["y"])
    assert json.loads(run("decrypt", "m-encrypted", "--name", "back", "--json").output)["digest"] == str(source.digest)


def test_encrypted_with_a_passphrase(run, store, tmp_path):
    vitrify.save({"a": np.ones(10, np.float32)}, "w")
    done = run("encrypt", "w", "--passphrase", "--all", input="correct horse battery\ncorrect horse battery\n")
    assert "passphrase" in done.output
    (tmp_path / "words").write_text("passphrase: correct horse battery")
    run("decrypt", "w-encrypted", "--identity", "words", "--name", "back")
    assert vitrify.open("back").model()["a"].sum() == 10


def test_obfuscated_and_the_names_kept_apart(run, store, tmp_path):
    vitrify.save(network(), "m", example=rows())
    assert run("keygen", "--secret", "key").exit_code == 0
    done = run("obfuscate", "m", "--key", "key", "--names", "names.json")
    assert "m-obfuscated:latest" in done.output
    names = json.loads((tmp_path / "names.json").read_text())
    assert "secret_first" in names["value"].values()
    assert (tmp_path / "names.json").stat().st_mode & 0o077 == 0


def test_marked_and_found_again_by_the_key_alone(run, store, tmp_path):
    vitrify.save({"w": np.random.default_rng(0).normal(size=4000).astype(np.float32)}, "w")
    run("keygen", "--secret", "key")
    run("keygen", "--secret", "other")
    run("watermark", "embed", "w", "--key", "key", "--id", "acme-042")
    done = run("watermark", "detect", "w-marked", "--key", "key")
    assert done.exit_code == 0
    assert "acme-042" in done.output
    (tmp_path / "copy.safetensors").write_bytes(vitrify.open("w-marked").files.read("model.safetensors"))
    found = json.loads(run("watermark", "detect", "copy.safetensors", "--key", "key", "--json").output)
    assert found["present"]
    assert found["log10_p"] < -100
    for reference, key in (("w", "key"), ("w-marked", "other")):
        done = run("watermark", "detect", reference, "--key", key)
        assert done.exit_code == 11
        assert "none" in done.output
    done = run("watermark", "detect", "w-marked", "--key", "key", "--id", "acme-042", "--json")
    assert json.loads(done.output)["id"] == "acme-042"
