"""The servers that are compared: ours as a user starts it, and peers, each in an environment of its own.

A peer is set up as its documentation advises for throughput: batching on where it has batching, one instance of the
model, ONNX Runtime with one thread. What runs inside is the same session on the same file (``apps/onnx_file.py``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from _serve import asking
from _serve.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from _serve.client import Ask
    from _serve.models import Model

ROOT = Path(__file__).parent.parent.parent
APPS = Path(__file__).parent / "apps"
ONNX, NUMPY = "onnxruntime==1.32.0", "numpy==2.4.6"
BATCH = 32


@dataclass(frozen=True)
class Plan:
    """How one server is started for one model: a command, what is added to the environment, and what it is asked."""

    command: list[str]
    asks: dict[str, Ask]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Server:
    """A server: its name, what is installed for it (nothing for ours), and its plan."""

    name: str
    plan: Callable[[Model, Path], Plan]
    packages: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return ROOT / f".venv-peers-serve-{self.name}"

    def ready(self) -> None:
        """Make its environment if it is not there."""
        if self.packages and not (self.folder / ".ready").exists():
            venv.create(self.folder, with_pip=True, clear=True)
            pip = [self.folder / "bin" / "python", "-m", "pip", "install", "--quiet", *self.packages]
            subprocess.run(pip, check=True)
            (self.folder / ".ready").touch()

    def environment(self, model: Model, plan: Plan) -> dict[str, str]:
        """Return what its process finds in its environment: its own programs first, and the model."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        apps = {"PATH": path, "PYTHONPATH": str(APPS), "SERVED_MODEL": str(model.folder)}
        return {**(apps if self.packages else {}), **plan.environment}


def peer(name: str) -> Path:
    """Return the interpreter of a peer's environment."""
    return ROOT / f".venv-peers-serve-{name}" / "bin" / "python"


def serve(home: Path, name: str, plane: str, ports: tuple[int, int], *options: str) -> tuple[list[str], dict[str, str]]:
    """Return the command that serves one artifact of ours, and its environment."""
    command = [str(Path(sys.executable).with_name("vitrify")), "serve", name, "--plane", plane]
    command += ["--port", str(ports[0]), "--grpc-port", str(ports[1]), *options]
    return command, {"VITRIFY_HOME": str(home)}


def certificate(folder: Path) -> tuple[str, ...]:
    """Make a key and a certificate as they are usual (P-256), and return the options that take them."""
    chain, key = folder / "server.pem", folder / "server.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-days", "1", "-subj", "/CN=127.0.0.1", "-keyout", str(key), "-out", str(chain)]
    subprocess.run(command, check=True, capture_output=True)
    return "--tls-certificate", str(chain), "--tls-key", str(key)


def ours(plane: str, *options: str, tls: bool = False) -> Callable[[Model, Path], Plan]:
    """Return the plan of ``vitrify serve`` with a plane; its guarantees are what they are by default: on."""

    def plan(model: Model, folder: Path) -> Plan:
        ports = free_port(), free_port()
        papers = certificate(folder) if tls else ()
        command, environment = serve(model.folder.parent / "home", model.name, plane, ports, *options, *papers)
        asks = asking.oip(model, *ports)
        return Plan(command, {name: replace(ask, tls=tls) for name, ask in asks.items()}, environment)

    return plan


def triton(model: Model, folder: Path) -> Plan:
    """Triton: its Python backend calls ONNX Runtime; dynamic batching."""
    installed = peer("triton").parent.parent / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    server, backends = installed / "pytriton" / "tritonserver", folder / "backends"
    shutil.copytree(server / "backends", backends, dirs_exist_ok=True)
    stub = server / "python_backend_stubs" / f"3.{sys.version_info.minor}" / "triton_python_backend_stub"
    shutil.copy(stub, backends / "python" / stub.name)
    version = folder / "models" / model.name / "1"
    version.mkdir(parents=True, exist_ok=True)
    shutil.copy(APPS / "triton_model.py", version / "model.py")
    shutil.copy(APPS / "onnx_file.py", version)
    (version.parent / "config.pbtxt").write_text(_triton_config(model))
    http, grpc, metrics = free_port(), free_port(), free_port()
    command = [str(server / "bin" / "tritonserver"), f"--model-repository={folder / 'models'}"]
    command += [f"--backend-directory={backends}", f"--http-port={http}", f"--grpc-port={grpc}"]
    command += [f"--metrics-port={metrics}", "--http-address=127.0.0.1", "--grpc-address=127.0.0.1"]
    libraries = f"{installed / 'nvidia_pytriton.libs'}:{Path(sys.base_prefix) / 'lib'}"
    environment = {"LD_LIBRARY_PATH": libraries, "PYTHONPATH": f"{APPS}:{installed}"}
    return Plan(command, asking.oip(model, http, grpc), environment)


def _triton_config(model: Model) -> str:
    def port(kind: str, one: dict) -> str:
        shape = one["shape"] or [1]
        reshape = "" if one["shape"] else "reshape: { shape: [ ] }"
        return f'{kind} [ {{ name: "{one["name"]}" data_type: TYPE_{one["datatype"]} dims: {shape} {reshape} }} ]\n'

    ports = port("input", model.spec["input"]) + "".join(port("output", one) for one in model.spec["outputs"])
    batching = f"max_batch_size: {BATCH}\ndynamic_batching {{ }}\n"
    return f'name: "{model.name}"\nbackend: "python"\n{batching}{ports}'


def mlserver(model: Model, folder: Path) -> Plan:
    """MLServer: a custom runtime, adaptive batching; no pool of workers, which is faster for small models."""
    http, grpc, metrics = free_port(), free_port(), free_port()
    settings = {
        "host": "127.0.0.1",
        "http_port": http,
        "grpc_port": grpc,
        "metrics_port": metrics,
        "parallel_workers": 0,
        "debug": False,
    }
    about = {
        "name": model.name,
        "implementation": "mlserver_model.OnnxModel",
        "max_batch_size": BATCH,
        "max_batch_time": 0.001,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "model-settings.json").write_text(json.dumps(about))
    asks = {"REST": asking.rest(model, http), "gRPC": asking.grpc(model, grpc)}
    return Plan([str(peer("mlserver").with_name("mlserver")), "start", str(folder)], asks)


def litserve(model: Model, _folder: Path) -> Plan:
    http = free_port()
    command = [str(peer("litserve")), str(APPS / "litserve_app.py"), str(http)]
    return Plan(command, {"REST": asking.plain(model, http, "/predict", "data")})


def bentoml(model: Model, folder: Path) -> Plan:
    http = free_port()
    command = [str(peer("bentoml").with_name("bentoml")), "serve", "bentoml_app:Model", "--working-dir", str(APPS)]
    command += ["--host", "127.0.0.1", "--port", str(http)]
    home = {"BENTOML_HOME": str(folder / "home"), "BENTOML_DO_NOT_TRACK": "True"}
    return Plan(command, {"REST": asking.plain(model, http, "/predict", "data", batch=True)}, home)


def mlflow(model: Model, folder: Path) -> Plan:
    """MLflow: its own ONNX flavor and scoring server, which does not batch."""
    http, saved = free_port(), folder / "saved"
    environment = {"MLFLOW_DISABLE_TELEMETRY": "true"}
    if not saved.exists():
        apps = {"PYTHONPATH": str(APPS), "SERVED_MODEL": str(model.folder)}
        save = [peer("mlflow"), APPS / "mlflow_save.py", saved]
        subprocess.run(save, check=True, cwd=folder, env={**os.environ, **environment, **apps}, capture_output=True)
    command = [str(peer("mlflow").with_name("mlflow")), "models", "serve", "--model-uri", str(saved)]
    command += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(http), "--workers", "1"]
    inputs = {"inputs": {model.spec["input"]["name"]: asking.row(model).tolist()}}
    ask = asking.Ask(http, "/invocations", json.dumps(inputs).encode(), headers=asking.JSON)
    return Plan(command, {"REST": ask}, environment)


def kserve(model: Model, _folder: Path) -> Plan:
    http, grpc = free_port(), free_port()
    asks = {"REST": asking.rest(model, http), "gRPC": asking.grpc(model, grpc)}
    return Plan([str(peer("kserve")), str(APPS / "kserve_app.py"), str(http), str(grpc)], asks)


def ray(model: Model, _folder: Path) -> Plan:
    http = free_port()
    command = [str(peer("ray")), str(APPS / "ray_app.py"), str(http)]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0"}
    return Plan(command, {"REST": asking.plain(model, http, "/predict", "data")}, quiet)


def torchserve(model: Model, folder: Path) -> Plan:
    """TorchServe: a handler of its own in an archive, batching; one worker."""
    http, grpc, *others = (free_port() for _ in range(5))
    manifest = {
        "createdOn": "01/01/2026 00:00:00",
        "runtime": "python",
        "model": {"modelName": model.name, "handler": "torchserve_handler.py", "modelVersion": "1.0"},
        "archiverVersion": "0.12.0",
    }
    with zipfile.ZipFile(folder / "model.mar", "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        archive.write(APPS / "torchserve_handler.py", "torchserve_handler.py")
        archive.write(APPS / "onnx_file.py", "onnx_file.py")
    about = {"marName": "model.mar", "minWorkers": 1, "maxWorkers": 1, "batchSize": BATCH, "maxBatchDelay": 1}
    settings = {
        "inference_address": f"http://127.0.0.1:{http}",
        "management_address": f"http://127.0.0.1:{others[0]}",
        "metrics_address": f"http://127.0.0.1:{others[1]}",
        "grpc_inference_port": grpc,
        "grpc_management_port": others[2],
        "load_models": "all",
        "models": json.dumps({model.name: {"1.0": {"defaultVersion": True, "responseTimeout": 60, **about}}}),
    }
    (folder / "config.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [str(peer("torchserve").with_name("torchserve")), "--start", "--foreground", "--disable-token-auth"]
    command += ["--model-store", str(folder), "--ts-config", str(folder / "config.properties")]
    plain = asking.plain(model, http, f"/predictions/{model.name}", "data")
    return Plan(command, {"REST": plain, "gRPC": asking.torchserve_grpc(model, grpc, plain.body)})


def bare(model: Model, _folder: Path) -> Plan:
    http = free_port()
    command = [str(peer("bare").with_name("granian")), "bare_app:app", "--interface", "rsgi", "--loop", "uvloop"]
    command += ["--host", "127.0.0.1", "--port", str(http), "--no-ws", "--workers", "1"]
    return Plan(command, {"REST": asking.rest(model, http)})


PEERS = {
    one.name: one
    for one in (
        Server("triton", triton, ("nvidia-pytriton==0.7.0", ONNX, "numpy==1.26.4")),
        Server("mlserver", mlserver, ("mlserver==1.7.1", ONNX, NUMPY)),
        Server("litserve", litserve, ("litserve==0.2.19", ONNX, NUMPY)),
        Server("bentoml", bentoml, ("bentoml==1.4.40", ONNX, NUMPY)),
        Server("mlflow", mlflow, ("mlflow==3.17.2", "onnx==1.23.2", ONNX, NUMPY)),
        Server("kserve", kserve, ("kserve==0.21.0", ONNX, NUMPY)),
        Server("ray", ray, ("ray[serve]==2.60.0", ONNX, NUMPY)),
        Server(
            "torchserve",
            torchserve,
            (
                "torchserve==0.12.0",
                "torch==2.13.0+cpu",
                ONNX,
                NUMPY,
                "packaging",
                "psutil",
                "pyyaml",
                "requests",
                "setuptools==80.10.2",
            ),
        ),
        Server("bare", bare, ("granian[uvloop]==2.8.9", "msgspec==0.23.0", ONNX, NUMPY)),
    )
}
