"""An application of Ray Serve: ``app.py``, its configuration ``serve.yaml``, and the sealed artifact beside them.

    cd FOLDER && serve run serve.yaml

A replica opens the artifact and answers the Open Inference Protocol over REST, below ``/``. Sources:
https://docs.ray.io/en/latest/serve/production-guide/config.html, and the fields of ``ServeDeploySchema`` there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vitrify.package import _yaml
from vitrify.package._bundle import BUNDLE, bundle
from vitrify.package._folder import new_folder, put
from vitrify.package._served import (
    dns_name,
    model_name,
    require_open,
    require_replicas,
    requirements,
    signature_of,
    tag,
)

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

APP, CONFIG, REQUIREMENTS = "app.py", "serve.yaml", "requirements.txt"

_DRAIN_SECONDS = 30
_ONGOING = 64
_WAITING = 1024
_WORD = re.compile(r"[^A-Za-z0-9_]")


def export(
    artifact: Artifact, folder: Path, *, replicas: tuple[int, int] = (1, 4), allow: Collection[str] = ()
) -> None:
    """Write an application.

    Args:
        artifact: The artifact.
        folder: The directory to make.
        replicas: At least, and at most.
        allow: Exact names of code that the model may run.

    Raises:
        UnsupportedModelError: It has no signature.
        UsageError: Something is there already, or it is encrypted.
        StoreError: The disk would not take it; nothing is left behind.
    """
    require_open(artifact, "Ray Serve")
    signature_of(artifact)
    require_replicas(replicas)
    with new_folder(folder) as new:
        bundle(artifact, new)
        put(new, APP, _app(artifact, allow))
        put(new, CONFIG, _yaml.dump(_config(artifact, replicas)))
        put(new, REQUIREMENTS, requirements(artifact))


def _app(artifact: Artifact, allow: Collection[str]) -> bytes:
    """Return the application's module.

    Its class is imported by its name where a replica is, so that it finds its own file there, wherever Ray has put it.
    """
    name, version = model_name(artifact), tag(artifact)
    return f'''"""{name}, served by Ray Serve: artifact {artifact.digest}."""

from pathlib import Path

from ray import serve
from vitrify.serve.guest.ray_serve import Model


class Served(Model):
    """The artifact that lies beside this file."""

    def __init__(self):
        super().__init__(Path(__file__).parent / {BUNDLE!r}, {name!r}, {version!r}, allow={sorted(allow)!r})


app = serve.deployment(Served, name={_deployment(artifact)!r}).bind()
'''.encode()


def _deployment(artifact: Artifact) -> str:
    return _WORD.sub("_", model_name(artifact))


def _config(artifact: Artifact, replicas: tuple[int, int]) -> dict[str, Any]:
    least, most = replicas
    deployment = {
        "name": _deployment(artifact),
        "autoscaling_config": {"min_replicas": least, "max_replicas": most, "target_ongoing_requests": _ONGOING // 2},
        "max_ongoing_requests": _ONGOING,
        "max_queued_requests": _WAITING,
        "graceful_shutdown_timeout_s": _DRAIN_SECONDS,
        "health_check_period_s": 10,
        "ray_actor_options": {"num_cpus": 1},
    }
    application = {
        "name": dns_name(artifact),
        "route_prefix": "/",
        "import_path": "app:app",
        "runtime_env": {"env_vars": {"VITRIFY_EXPORTED_DIGEST": str(artifact.digest)}},
        "deployments": [deployment],
    }
    return {
        "proxy_location": "EveryNode",
        "http_options": {"host": "127.0.0.1", "port": 8000},
        "applications": [application],
    }
