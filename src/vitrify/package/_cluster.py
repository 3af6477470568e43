"""What a cluster has to be told of a served artifact: names, image, source, room, and how careful a container is."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vitrify.core import reference
from vitrify.core.errors import UsageError
from vitrify.package import _yaml
from vitrify.package._about import name_of
from vitrify.package._folder import new_folder, put
from vitrify.package._served import dns_name, model_name, require_replicas, tag

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact
    from vitrify.core.reference import Remote

HTTP, GRPC = 8080, 8081
HOME, SCRATCH, SETTINGS, LOGIN = "/var/lib/vitrify", "/tmp", "/etc/vitrify", "/etc/vitrify-login"  # noqa: S108 (a volume)
SETTINGS_FILE = "vitrify-serve.toml"
DRAIN_SECONDS = 30
PAUSE_SECONDS = 5
MARGIN_SECONDS = 10
USER = 65532
"""The user of images that have nothing but a program in them; any but root would do."""

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,500}", re.ASCII)
_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_MIB = 1 << 20
_STEP = 64


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where and how an artifact is served in a cluster.

    Attributes:
        image: The container image that has Vitrify in it.
        source: Where the artifact was pushed: ``oci://host/name``. What is pulled from there is its digest.
        replicas: At least, and at most.
        allow: Exact names of code that the model may run.
        clients: From the name of a client to the SHA-256 of its token; none lets in whoever reaches the port.
        login: Name of a Secret of type ``kubernetes.io/dockerconfigjson``, with which the artifact is pulled.
        monitor: Whether Prometheus' operator is there.
    """

    image: str
    source: str
    replicas: tuple[int, int] = (2, 8)
    allow: Collection[str] = ()
    clients: Mapping[str, str] = field(default_factory=dict)
    login: str = ""
    monitor: bool = False

    def __post_init__(self) -> None:
        """Refuse what no cluster would take.

        Raises:
            UsageError: It is none of these things.
        """
        if not _IMAGE.fullmatch(self.image):
            named = f"{self.image!r:.200} is no name of an image" if self.image else "no image is named"
            msg = f"{named}; expected one that has Vitrify in it"
            raise UsageError(msg, remedy="name it: --image registry.example.com/vitrify@sha256:...")
        if not self.source:
            msg = "where the artifact was pushed is not said, and a cluster has no files of this machine"
            raise UsageError(
                msg, remedy="push it first: vitrify push REF oci://host/name; then: --source oci://host/name"
            )
        _ = self.remote
        require_replicas(self.replicas)
        for name, digest in self.clients.items():
            if not name or not _SHA256.fullmatch(digest):
                msg = f"client {name!r:.100} has {digest!r:.100}; expected the SHA-256 of its token in hexadecimal"
                raise UsageError(
                    msg, remedy="for example: --client shop=$(printf %s TOKEN | sha256sum | cut -d ' ' -f 1)"
                )
        if self.login and not _VALUE.fullmatch(self.login):
            msg = f"no Secret is called {self.login!r:.100}"
            raise UsageError(msg)

    @property
    def remote(self) -> Remote:
        """The repository, whatever tag stands behind it."""
        return reference.remote(self.source)

    def pulled(self, artifact: Artifact) -> str:
        """Return what is pulled: the very artifact, by its digest.

        Raises:
            UsageError: The source names another digest.
        """
        found = self.remote
        if found.digest is not None and found.digest != artifact.digest:
            msg = f"the source names {found.digest}, and the artifact is {artifact.digest}"
            raise UsageError(msg, remedy="leave the digest out of --source")
        return f"oci://{found.host}/{found.repository}@{artifact.digest}"


def labels(artifact: Artifact) -> dict[str, str]:
    """Return the labels of everything that belongs to an artifact, as Kubernetes recommends them."""
    version = tag(artifact)
    return {
        "app.kubernetes.io/name": dns_name(artifact),
        **({"app.kubernetes.io/version": version} if _VALUE.fullmatch(version) else {}),
        "app.kubernetes.io/managed-by": "vitrify",
    }


def notes(artifact: Artifact) -> dict[str, str]:
    """Return whose bytes are served."""
    return {
        "vitrify/digest": str(artifact.digest),
        "vitrify/name": name_of(artifact),
        "vitrify/format": artifact.document.format,
    }


def settings(artifact: Artifact, place: Place) -> str:
    """Return the server's settings as TOML; the model is named by its digest, which nobody can move."""
    lines = ["[server]", 'host = "0.0.0.0"', f"port = {HTTP}", f"grpc_port = {GRPC}"]
    lines += ["insecure = true", f"drain_seconds = {DRAIN_SECONDS}.0", 'access_log = "stderr"']
    lines += ["", "[[models]]", f"reference = {_text(str(artifact.digest))}", f"name = {_text(model_name(artifact))}"]
    lines += [f"version = {_text(tag(artifact))}"]
    if place.allow:
        lines.append(f"allow = [{', '.join(map(_text, sorted(place.allow)))}]")
    for name, digest in sorted(place.clients.items()):
        lines += ["", "[[clients]]", f"name = {_text(name)}", f"token_sha256 = {_text(digest)}"]
    return "".join(f"{line}\n" for line in lines)


def careful() -> dict[str, Any]:
    """Return the security context of a container that may do nothing but its work."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def resources(artifact: Artifact) -> dict[str, Any]:
    """Return what a replica asks for, and what it gets at most, by the size of the files."""
    memory = _mebibytes(256 * _MIB + 3 * artifact.size)
    return {
        "requests": {"cpu": "500m", "memory": f"{memory}Mi"},
        "limits": {"cpu": "2", "memory": f"{2 * memory}Mi"},
    }


def environment(place: Place) -> list[dict[str, str]]:
    """Return the variables of a container whose root is read-only."""
    named = {"VITRIFY_HOME": HOME, "HOME": HOME, "TMPDIR": SCRATCH, **({"DOCKER_CONFIG": LOGIN} if place.login else {})}
    return [{"name": name, "value": value} for name, value in named.items()]


def mounts(place: Place) -> list[dict[str, Any]]:
    """Return where the volumes are."""
    login = [{"name": "login", "mountPath": LOGIN, "readOnly": True}] if place.login else []
    return [{"name": "home", "mountPath": HOME}, {"name": "scratch", "mountPath": SCRATCH}, *login]


def volumes(artifact: Artifact, place: Place) -> list[dict[str, Any]]:
    """Return the volumes: the store, scratch, and the registry's password where one is needed."""
    room = f"{_mebibytes(256 * _MIB + 3 * artifact.size)}Mi"
    found: list[dict[str, Any]] = [{"name": name, "emptyDir": {"sizeLimit": room}} for name in ("home", "scratch")]
    if place.login:
        item = {"key": ".dockerconfigjson", "path": "config.json"}
        found.append({"name": "login", "secret": {"secretName": place.login, "items": [item]}})
    return found


def probe(path: str, **more: int) -> dict[str, Any]:
    """Return a probe over REST; health needs no token."""
    return {"httpGet": {"path": path, "port": HTTP}, "timeoutSeconds": 2, **more}


def probes() -> dict[str, Any]:
    """Return the three probes: it may take ten minutes to load, then it is asked every few seconds."""
    return {
        "startupProbe": probe("/v2/health/ready", periodSeconds=2, failureThreshold=300),
        "livenessProbe": probe("/v2/health/live", periodSeconds=10, failureThreshold=3),
        "readinessProbe": probe("/v2/health/ready", periodSeconds=5, failureThreshold=2),
    }


def _mebibytes(size: int) -> int:
    """Return at least so many bytes in MiB, in steps, so that a small change of a model changes nothing here."""
    return -(-size // (_STEP * _MIB)) * _STEP


def _text(value: str) -> str:
    """Return a text as TOML has it, which is how JSON has it but for a few control characters."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def write(folder: Path, manifests: Mapping[str, dict[str, Any]]) -> None:
    """Write resources by the names of their files, and the kustomization that lists them.

    Raises:
        UsageError: Something is there already.
        StoreError: The disk would not take it; nothing is left behind.
    """
    listed = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(manifests)}
    with new_folder(folder) as new:
        for file, one in manifests.items():
            put(new, file, _yaml.dump(one))
        put(new, "kustomization.yaml", _yaml.dump(listed))
