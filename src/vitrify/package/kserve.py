"""KServe: a ``ServingRuntime`` a protocol, and the ``InferenceService`` of one artifact.

    kubectl apply -k FOLDER

The runtime is ``vitrify serve``; which artifact it serves, by its digest in an OCI registry, the service says. KServe
puts a service's arguments behind those of its runtime. Sources:
https://kserve.github.io/website/docs/concepts/resources/servingruntime, ``pkg/apis/serving`` of KServe 0.21.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.catalog import catalog
from vitrify.package import _cluster
from vitrify.package._cluster import GRPC, HTTP, Place
from vitrify.package._served import dns_name, model_name, require_open, signature_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

RUNTIME, RUNTIME_GRPC = "vitrify", "vitrify-grpc"
_CONTAINER = "kserve-container"


def export(
    artifact: Artifact,
    folder: Path,
    *,
    image: str = "",
    source: str = "",
    replicas: tuple[int, int] = (1, 4),
    allow: Collection[str] = (),
    login: str = "",
) -> None:
    """Write the resources, one file each; the options are those of :class:`._cluster.Place`.

    Raises:
        UnsupportedModelError: It has no signature.
        UsageError: An option is not what it should be, something is there already, or the artifact is encrypted.
        StoreError: The disk would not take it; nothing is left behind.
    """
    require_open(artifact, "a cluster")
    signature_of(artifact)
    place = Place(image=image, source=source, replicas=replicas, allow=allow, login=login)
    _cluster.write(folder, manifests(artifact, place))


def manifests(artifact: Artifact, place: Place) -> dict[str, dict[str, Any]]:
    """Return the resources by the names of their files."""
    return {
        "servingruntime.yaml": _runtime(artifact, place, grpc=False),
        "servingruntime-grpc.yaml": _runtime(artifact, place, grpc=True),
        "inferenceservice.yaml": _service(artifact, place),
    }


def formats() -> list[str]:
    """Return every format that a runtime of ours opens."""
    return sorted({name for row in catalog().rows("runtime") for name in row.formats})


def _runtime(artifact: Artifact, place: Place, *, grpc: bool) -> dict[str, Any]:
    """Return a runtime; KServe lets a container have one port, so that REST and gRPC are two of them.

    Health is asked over REST in both.
    """
    port = {"name": "h2c", "containerPort": GRPC} if grpc else {"name": "http1", "containerPort": HTTP}
    container = {
        "name": _CONTAINER,
        "image": place.image,
        "command": ["vitrify", "serve"],
        "args": [
            *("--host", "0.0.0.0", "--insecure-http"),  # noqa: S104 (in a pod, whose network others see to)
            *("--port", str(HTTP), "--grpc-port", str(GRPC if grpc else -1), "--access-log", "stderr"),
        ],
        "env": _cluster.environment(place),
        "ports": [{**port, "protocol": "TCP"}],
        "securityContext": _cluster.careful(),
        "resources": _cluster.resources(artifact),
        "volumeMounts": _cluster.mounts(place),
        **_cluster.probes(),
    }
    spec = {
        "supportedModelFormats": [{"name": name, "version": "1", "autoSelect": False} for name in formats()],
        "protocolVersions": ["grpc-v2"] if grpc else ["v2"],
        "multiModel": False,
        "containers": [container],
        "volumes": _cluster.volumes(artifact, place),
    }
    metadata = {"name": RUNTIME_GRPC if grpc else RUNTIME, "labels": {"app.kubernetes.io/managed-by": "vitrify"}}
    return {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "metadata": metadata, "spec": spec}


def _service(artifact: Artifact, place: Place) -> dict[str, Any]:
    allow = [word for name in sorted(place.allow) for word in ("--allow", name)]
    model = {
        "modelFormat": {"name": artifact.document.format, "version": "1"},
        "runtime": RUNTIME,
        "protocolVersion": "v2",
        "args": [*allow, f"{model_name(artifact)}={place.pulled(artifact)}"],
        "resources": _cluster.resources(artifact),
    }
    grace = _cluster.DRAIN_SECONDS + _cluster.MARGIN_SECONDS
    predictor = {
        "minReplicas": place.replicas[0],
        "maxReplicas": place.replicas[1],
        "terminationGracePeriodSeconds": grace,
        "automountServiceAccountToken": False,
        "model": model,
    }
    metadata = {
        "name": dns_name(artifact),
        "labels": _cluster.labels(artifact),
        "annotations": _cluster.notes(artifact),
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": metadata,
        "spec": {"predictor": predictor},
    }
