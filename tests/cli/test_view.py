"""``vitrify view``: text on a terminal, files to open elsewhere, and Netron."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from vitrify.artifacts.pack import pack
from vitrify.cli.view import command
from vitrify.core.errors import UnsupportedModelError, UsageError


@pytest.fixture
def model(tmp_path):
    value = helper.make_tensor_value_info
    node = helper.make_node("Mul", ["x", "x"], ["y"], name="square")
    graph = helper.make_graph([node], "g", [value("x", 1, ["n", 3])], [value("y", 1, ["n", 3])])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def view(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments], catch_exceptions=False).output


def test_a_file_is_drawn_in_the_terminal_and_an_artifact_too(model):
    drawn = view(model)
    assert drawn.splitlines()[0].startswith("●  input x float")
    pack(model, "square")
    assert view("square") == drawn


def test_it_is_written_as_svg_as_a_page_and_as_text(model, tmp_path):
    for ending, start in ((".svg", "<?xml"), (".html", "<!doctype html>"), (".txt", "●")):
        path = tmp_path / f"drawing{ending}"
        assert "1 operator" in view(model, "-o", path)
        assert path.read_text(encoding="utf-8").startswith(start)
    with pytest.raises(UsageError, match=r"none of .svg, .html, .txt"):
        view(model, "-o", tmp_path / "drawing.png")


def test_the_graph_is_told_as_json(model):
    found = json.loads(view(model, "--json"))
    assert [node["operator"] for node in found["nodes"]] == ["Mul"]


def test_a_file_without_a_graph_says_which_formats_have_one(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("nothing to draw\n")
    with pytest.raises(UnsupportedModelError, match=r"text files hold no graph of operators.*onnx"):
        view(path)


@pytest.mark.slow
def test_netron_serves_the_file_that_it_is_handed(model):
    with socket.socket() as free:
        if free.connect_ex(("localhost", 8080)) == 0:
            pytest.skip("something listens on the port that Netron takes")
    environment = {**os.environ, "BROWSER": "true", "PYTHONUNBUFFERED": "1"}
    call = [sys.executable, "-c", f"from vitrify.cli import main; main(['view', {str(model)!r}, '--netron'])"]
    running = subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        line = running.stdout.readline()
        address = line.split()[-1]
        assert address.startswith("http://localhost:"), line
        end = time.monotonic() + 120
        while True:
            try:
                page = urllib.request.urlopen(address, timeout=60).read()
                break
            except OSError:
                assert time.monotonic() < end, "nobody answers"
                time.sleep(0.1)
        assert b"Netron" in page
    finally:
        running.kill()
        running.communicate()
