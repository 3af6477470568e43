"""The real Triton, where the benchmarks have installed it: it loads an exported repository and answers its own clients.

That package (nvidia-pytriton) has the Python backend only, whose interpreter takes no path from the environment, and
goes with NumPy 1 alone: each exported ``model.py`` gets a line in front that says where the libraries are.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rest_serving import KINDS, empty_values, everything
from served_models import ROWS, outputs, seal, signature, times
from servers._process import HOST, free_port, running

import vitrify
from vitrify import package
from vitrify.core.signature import Signature
from vitrify.stores.oci_layout import OciLayout

http = pytest.importorskip("tritonclient.http")
grpc = pytest.importorskip("tritonclient.grpc")

pytestmark = [pytest.mark.slow, pytest.mark.external]

ROOT = Path(__file__).parent.parent.parent
PYTHON = f"3.{sys.version_info.minor}"
PEER = ROOT / ".venv-peers-serve-triton" / "lib" / f"python{PYTHON}" / "site-packages"
SERVER = PEER / "pytriton" / "tritonserver"
CLASSES = ("red", "green", "blue", "white")
_SECONDS = 120


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return an exported repository of three models, whose interpreter finds the libraries."""
    if not (SERVER / "bin" / "tritonserver").is_file():
        pytest.skip(f"Triton is not in {PEER.parent.parent.parent.name}")
    folder = tmp_path_factory.mktemp("triton")
    store = OciLayout(folder / "store")
    named = signature().outputs[0].replace(classes=CLASSES)
    classifier = signature().replace(outputs=(named, signature().outputs[1]))
    seal(store, "times:3", times(2), classifier, ({"X": ROWS}, outputs(2)))
    whole = {f"in_{kind}": empty_values(kind) for kind in KINDS}
    fields = package_fields(whole), package_fields({name.replace("in_", "out_"): one for name, one in whole.items()})
    seal(store, "all:1", everything(), Signature(inputs=fields[0], outputs=fields[1], container="dict"))
    first, second = (vitrify.open(name, store=store) for name in ("times:3", "all:1"))
    package.export(first, folder / "models", "triton", also=[second], backend="python")
    ours = [str(ROOT / "src"), str(PEER), *(path for path in sys.path if path.endswith("site-packages"))]
    for model in (folder / "models").glob("*/*/model.py"):
        model.write_text(f"import sys; sys.path[:0] = {ours!r}\n{model.read_text()}")
    return folder / "models"


def package_fields(arrays):
    """Return the fields of arrays whose first dimension is the batch."""
    from vitrify.core.signature import Field

    return tuple(
        Field(name=name, dtype="string" if one.dtype == object else str(one.dtype), shape=("batch", *one.shape[1:]))
        for name, one in arrays.items()
    )


@pytest.fixture(scope="module")
def server(repository):
    """Run Triton, and return clients of both protocols."""
    backends = repository.parent / "backends"
    shutil.copytree(SERVER / "backends", backends)
    shutil.copy(SERVER / "python_backend_stubs" / PYTHON / "triton_python_backend_stub", backends / "python")
    ports = {name: free_port() for name in ("http", "grpc", "metrics")}
    command = [str(SERVER / "bin" / "tritonserver"), f"--model-repository={repository}"]
    command += [f"--backend-directory={backends}", f"--http-address={HOST}", f"--grpc-address={HOST}"]
    command += [f"--{name}-port={port}" for name, port in ports.items()]
    libraries = f"{PEER / 'nvidia_pytriton.libs'}:{Path(sys.base_prefix) / 'lib'}"
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    with running(command, ports["http"], repository.parent / "log", env=environment):
        clients = {
            "http": (http, http.InferenceServerClient(f"{HOST}:{ports['http']}")),
            "grpc": (grpc, grpc.InferenceServerClient(f"{HOST}:{ports['grpc']}")),
        }
        end = time.monotonic() + _SECONDS
        while not clients["http"][1].is_server_ready():
            assert time.monotonic() < end, (repository.parent / "log").read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        yield clients
        for _, client in clients.values():
            client.close()


def ask(server, protocol, model, arrays, **options):
    module, client = server[protocol]
    inputs = []
    for name, (array, kind) in arrays.items():
        one = module.InferInput(name, list(array.shape), kind)
        one.set_data_from_numpy(array)
        inputs.append(one)
    return client.infer(model, inputs, **options)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_rows_are_answered_bit_for_bit(server, protocol):
    answer = ask(server, protocol, "times", {"X": (ROWS, "FP32")})
    assert np.array_equal(answer.as_numpy("Y"), outputs(2)["Y"])
    assert np.array_equal(answer.as_numpy("L"), outputs(2)["L"][:, None])  # one number a row is a vector of one there


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_comes_back(server, protocol, kind):
    arrays = {f"in_{one}": (empty_values(one), one) for one in KINDS}
    found, expected = ask(server, protocol, "all", arrays).as_numpy(f"out_{kind}"), empty_values(kind)
    if kind == "BYTES":
        expected = np.array([[text.encode() for text in row] for row in expected], object)
    assert np.array_equal(found, expected)


def test_classes_have_the_names_of_the_labels_file(server):
    wanted = [http.InferRequestedOutput("Y", class_count=1)]
    answer = ask(server, "http", "times", {"X": (ROWS[:2], "FP32")}, outputs=wanted)
    names = [one.decode().rpartition(":")[2] for one in answer.as_numpy("Y").ravel()]
    assert names == [CLASSES[at] for at in outputs(2, ROWS[:2])["L"]]


def test_what_does_not_fit_is_an_error_of_that_request(server):
    with pytest.raises(http.InferenceServerException, match="X"):
        ask(server, "http", "times", {"X": (ROWS[:, :2].copy(), "FP32")})
    assert ask(server, "http", "times", {"X": (ROWS, "FP32")}).as_numpy("Y").shape == (10, 4)


def test_the_digest_is_in_the_configuration_that_the_server_gives(server, repository):
    told = server["http"][1].get_model_config("times")
    assert told["parameters"]["vitrify.digest.3"]["string_value"] in (repository / "times/config.pbtxt").read_text()
