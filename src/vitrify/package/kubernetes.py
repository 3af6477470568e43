"""Kubernetes manifests: an artifact served by ``vitrify serve``, pulled by its digest before the server starts.

    kubectl apply -k FOLDER

Deployment, Service, settings (ConfigMap), HorizontalPodAutoscaler, PodDisruptionBudget, NetworkPolicy, ServiceAccount,
ServiceMonitor where it is asked for, and a ``kustomization.yaml`` that lists them. A pod that ends is first taken out
of the Service, then answers what it has accepted. Source: https://kubernetes.io/docs/reference/kubernetes-api/.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from vitrify.package import _cluster
from vitrify.package._about import name_of
from vitrify.package._cluster import GRPC, HTTP, Place
from vitrify.package._served import dns_name, require_open, signature_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

_BUSY_PERCENT = 70
_CALM_SECONDS = 300
_HTTPS, _DNS = 443, 53
_MONITORING = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def export(
    artifact: Artifact,
    folder: Path,
    *,
    image: str = "",
    source: str = "",
    replicas: tuple[int, int] = (2, 8),
    allow: Collection[str] = (),
    clients: Mapping[str, str] | None = None,
    login: str = "",
    monitor: bool = False,
) -> None:
    """Write manifests, one file a resource; the options are those of :class:`._cluster.Place`.

    Raises:
        UnsupportedModelError: It has no signature.
        UsageError: An option is not what it should be, something is there already, or the artifact is encrypted.
        StoreError: The disk would not take it; nothing is left behind.
    """
    require_open(artifact, "a cluster")
    signature_of(artifact)
    place = Place(
        image=image,
        source=source,
        replicas=replicas,
        allow=allow,
        clients=clients or {},
        login=login,
        monitor=monitor,
    )
    _cluster.write(folder, manifests(artifact, place))


def manifests(artifact: Artifact, place: Place) -> dict[str, dict[str, Any]]:
    """Return the resources by the names of their files."""
    settings = _cluster.settings(artifact, place)
    found = {
        "serviceaccount.yaml": _resource(artifact, "v1", "ServiceAccount", {"automountServiceAccountToken": False}),
        "configmap.yaml": _resource(artifact, "v1", "ConfigMap", {"data": {_cluster.SETTINGS_FILE: settings}}),
        "deployment.yaml": _deployment(artifact, place, settings),
        "service.yaml": _service(artifact),
        "hpa.yaml": _autoscaler(artifact, place),
        "pdb.yaml": _budget(artifact),
        "networkpolicy.yaml": _network(artifact, place),
    }
    if place.monitor:
        endpoint: dict[str, Any] = {"port": "http", "path": "/metrics", "interval": "15s"}
        if place.clients:  # figures are for clients only, then
            secret = {"name": f"{dns_name(artifact)}-metrics", "key": "token"}
            endpoint["authorization"] = {"type": "Bearer", "credentials": secret}
        spec = {"selector": {"matchLabels": _selector(artifact)}, "endpoints": [endpoint]}
        found["servicemonitor.yaml"] = _resource(artifact, "monitoring.coreos.com/v1", "ServiceMonitor", {"spec": spec})
    return found


def _resource(artifact: Artifact, version: str, kind: str, rest: dict[str, Any]) -> dict[str, Any]:
    metadata = {
        "name": dns_name(artifact),
        "labels": _cluster.labels(artifact),
        "annotations": _cluster.notes(artifact),
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _selector(artifact: Artifact) -> dict[str, str]:
    """Return the labels by which pods are found, which no new version changes."""
    return {"app.kubernetes.io/name": dns_name(artifact)}


def _deployment(artifact: Artifact, place: Place, settings: str) -> dict[str, Any]:
    # New settings are new pods: a ConfigMap that changes does not restart anything by itself.
    annotations = {
        **_cluster.notes(artifact),
        "vitrify/settings": hashlib.sha256(settings.encode()).hexdigest(),
    }
    template = {
        "metadata": {"labels": _cluster.labels(artifact), "annotations": annotations},
        "spec": _pod(artifact, place),
    }
    spec = {
        "selector": {"matchLabels": _selector(artifact)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": template,
    }  # the autoscaler says how many
    return _resource(artifact, "apps/v1", "Deployment", {"spec": spec})


def _pod(artifact: Artifact, place: Place) -> dict[str, Any]:
    common = {
        "image": place.image,
        "env": _cluster.environment(place),
        "securityContext": _cluster.careful(),
        "resources": _cluster.resources(artifact),
    }
    config = {"name": "settings", "mountPath": _cluster.SETTINGS, "readOnly": True}
    pull = {
        "name": "pull",
        **common,
        "command": ["vitrify", "pull", place.pulled(artifact), name_of(artifact)],
        "volumeMounts": _cluster.mounts(place),
    }
    serve = {
        "name": "serve",
        **common,
        "command": ["vitrify", "serve", "--config", f"{_cluster.SETTINGS}/{_cluster.SETTINGS_FILE}"],
        "ports": [{"name": "http", "containerPort": HTTP}, {"name": "grpc", "containerPort": GRPC}],
        "volumeMounts": [*_cluster.mounts(place), config],
        **_cluster.probes(),
        # Others go on sending until they have heard that this pod is gone: it ends a little later.
        "lifecycle": {"preStop": {"sleep": {"seconds": _cluster.PAUSE_SECONDS}}},
    }
    volumes = [*_cluster.volumes(artifact, place), {"name": "settings", "configMap": {"name": dns_name(artifact)}}]
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _selector(artifact)},
    }
    return {
        "serviceAccountName": dns_name(artifact),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _cluster.PAUSE_SECONDS + _cluster.DRAIN_SECONDS + _cluster.MARGIN_SECONDS,
        "securityContext": {"runAsNonRoot": True, "fsGroup": _cluster.USER},
        "topologySpreadConstraints": [spread],
        "initContainers": [pull],
        "containers": [serve],
        "volumes": volumes,
    }


def _service(artifact: Artifact) -> dict[str, Any]:
    ports = [
        {"name": "http", "port": HTTP, "targetPort": "http", "appProtocol": "http"},
        {"name": "grpc", "port": GRPC, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"},
    ]
    return _resource(artifact, "v1", "Service", {"spec": {"selector": _selector(artifact), "ports": ports}})


def _autoscaler(artifact: Artifact, place: Place) -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": _BUSY_PERCENT}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": dns_name(artifact)},
        "minReplicas": place.replicas[0],
        "maxReplicas": place.replicas[1],
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": _CALM_SECONDS}},
    }
    return _resource(artifact, "autoscaling/v2", "HorizontalPodAutoscaler", {"spec": spec})


def _budget(artifact: Artifact) -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _selector(artifact)}}
    return _resource(artifact, "policy/v1", "PodDisruptionBudget", {"spec": spec})


def _network(artifact: Artifact, place: Place) -> dict[str, Any]:
    """Return who may reach the pods, and whom they reach: their own namespace, names, and the registry."""
    served = [{"protocol": "TCP", "port": HTTP}, {"protocol": "TCP", "port": GRPC}]
    monitoring = [{"from": [_MONITORING], "ports": served[:1]}] if place.monitor else []
    names = [{"protocol": protocol, "port": _DNS} for protocol in ("UDP", "TCP")]
    _, colon, port = place.remote.host.rpartition(":")
    registry = int(port) if colon and port.isdigit() else _HTTPS
    spec = {
        "podSelector": {"matchLabels": _selector(artifact)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [{"podSelector": {}}], "ports": served}, *monitoring],
        "egress": [{"ports": names}, {"ports": [{"protocol": "TCP", "port": registry}]}],
    }
    return _resource(artifact, "networking.k8s.io/v1", "NetworkPolicy", {"spec": spec})
