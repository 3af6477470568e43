"""What a server is told: a TOML file, the command line over it, and changes while it runs.

>>> # vitrify-serve.toml
>>> # [server]
>>> # port = 8080
>>> # [[models]]
>>> # reference = "churn@production"
>>> # [models.batching]
>>> # rows = 64
>>> # [routes.churn]
>>> # weights = {"1.2.0" = 0.9, "1.3.0" = 0.1}
"""

from __future__ import annotations

import itertools
import math

from vitrify.core.errors import DeniedError
from vitrify.serve._setting import Setting
from vitrify.serve.lanes import Batching

_STEPS, _VERSIONS, _SHADOWS, _LIVE = 100, 100, 8, 4096


def _require(right: object, name: str, found: object, expected: str) -> None:
    """Refuse a value.

    Raises:
        ValueError: It is not right; msgspec makes an error with its path of it.
    """
    if not right:
        msg = f"{name} is {found}; expected {expected}"
        raise ValueError(msg)


class SequenceSettings(Setting, frozen=True, kw_only=True):
    """Requests that belong together, for models that remember.

    Attributes:
        live: So many sequences may live at a time; each has a session of the model, so that this bounds the memory.
        idle_seconds: One that nothing has been asked of for so long may be forgotten.
    """

    live: int = 16
    idle_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what lets no sequence live."""
        _require(1 <= self.live <= _LIVE, "live", self.live, f"from 1 to {_LIVE}")
        _require(0 <= self.idle_seconds < math.inf, "idle_seconds", self.idle_seconds, "a number from 0")


class ModelSettings(Setting, frozen=True, kw_only=True):
    """One model, or one version of it.

    Attributes:
        reference: As for :func:`vitrify.open`; ``name@alias`` follows the registry.
        name: The name that it is served by; by default the reference's, without tag or alias.
        version: By default the registry's version, the tag, or ``1``.
        runtime: Catalog name; by default the artifact's own.
        allow: Exact dotted names of code outside the built-in allow-list that may run.
        batching: How requests become batches.
        lazy: Whether it is loaded by its first request.
        process: Whether it runs in worker processes of its own: a crash or a hang then harms nothing else. None means
            where the model runs Python code, or holds up others: :data:`vitrify.serve.workers.HERE`.
        python: The interpreter of an environment for its workers; by default this one.
        process_memory: Bytes that a worker may hold between batches; one that holds more is replaced by a new one. 0
            is without limit.
        threads: Threads inside one run of the model; 0 leaves it to the runtime.
        sequences: Of a model that remembers.
    """

    reference: str
    name: str = ""
    version: str = ""
    runtime: str | None = None
    allow: tuple[str, ...] = ()
    batching: Batching = Batching()
    lazy: bool = False
    process: bool | None = None
    python: str = ""
    process_memory: int = 0
    threads: int = 1
    sequences: SequenceSettings = SequenceSettings()


class StepSettings(Setting, frozen=True, kw_only=True):
    """One step of an ensemble.

    Attributes:
        model: Which model, by the name that it is served by.
        version: Which version; empty where its rollout decides.
        inputs: From the model's input to where it comes from: ``request.NAME`` or ``STEP.OUTPUT``. What is left out
            comes from the request's input of the same name.
    """

    model: str
    version: str = ""
    inputs: dict[str, str] = {}


class EnsembleSettings(Setting, frozen=True, kw_only=True):
    """Models that answer together: steps that take each other's outputs, each run as soon as it can be.

    Attributes:
        name: The name that it is served by.
        version: Which version of it; several of one name are rolled out like a model's.
        steps: By the name of the step.
        outputs: From the ensemble's output to ``STEP.OUTPUT``.
    """

    name: str
    version: str = "1"
    steps: dict[str, StepSettings]
    outputs: dict[str, str]

    def __post_init__(self) -> None:
        """Refuse what cannot be called."""
        _require(bool(self.name), "name", repr(self.name), "a name")
        _require(bool(self.version), "version", repr(self.version), "the name of a version")


Loadable = ModelSettings | EnsembleSettings
"""What can be loaded, unloaded and loaded again."""
OF_ENSEMBLES = frozenset({"steps", "outputs"})
"""Fields that only an ensemble has."""


def from_client(raw: object, *, where: str) -> Loadable:
    """Return what a client says over the network, which may not start a program of this machine.

    What has steps or outputs is an ensemble.

    Raises:
        UsageError: A name is not known, or a value is not of its type; the message has the path.
        DeniedError: It names an interpreter.
    """
    if isinstance(raw, dict) and not raw.keys().isdisjoint(OF_ENSEMBLES):
        return EnsembleSettings.from_builtins(raw, where=where)
    settings = ModelSettings.from_builtins(raw, where=where)
    if settings.python:
        msg = f"{where}: python names a program of this machine, which nobody may start over the network"
        raise DeniedError(msg, remedy="set it in the server's own settings file")
    return settings


class ShadowSettings(Setting, frozen=True, kw_only=True):
    """Requests that a second version is given too; nobody waits for its answers, they are only compared.

    Attributes:
        version: Which version.
        fraction: Of the requests.
    """

    version: str
    fraction: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is no fraction."""
        _require(bool(self.version), "version", self.version, "the name of a version")
        _require(0 <= self.fraction <= 1, "fraction", self.fraction, "from 0 to 1")


class CanarySettings(Setting, frozen=True, kw_only=True):
    """A version that takes over step by step, or is taken back.

    Attributes:
        version: The new one.
        steps: Its share, one step after the other; after the last it has everything.
        seconds: How long each step lasts at least.
        requests: How many requests each step takes at least.
        errors: Its error rate may be higher than the old version's by so much.
        latency: Its 99th percentile may be so many times the old version's.
        drift: The distance between both versions' predictions (population stability index, or the Jensen-Shannon
            distance of classes) may be so large; 0 does not look.
    """

    version: str
    steps: tuple[float, ...] = (0.01, 0.05, 0.25, 0.5)
    seconds: float = 60.0
    requests: int = 100
    errors: float = 0.01
    latency: float = 1.5
    drift: float = 0.2

    def __post_init__(self) -> None:
        """Refuse what leads nowhere."""
        steps = (0.0, *self.steps)
        rising = all(before < after <= 1 for before, after in itertools.pairwise(steps))
        _require(bool(self.version), "version", self.version, "the name of a version")
        _require(rising and 0 < len(self.steps) <= _STEPS, "steps", self.steps, f"1 to {_STEPS} rising shares up to 1")
        _require(0 <= self.seconds < math.inf, "seconds", self.seconds, "a number from 0")
        _require(self.requests >= 1, "requests", self.requests, "at least 1")
        _require(0 <= self.errors <= 1, "errors", self.errors, "from 0 to 1")
        _require(1 <= self.latency < math.inf, "latency", self.latency, "a number from 1")
        _require(0 <= self.drift < math.inf, "drift", self.drift, "a number from 0")


class RouteSettings(Setting, frozen=True, kw_only=True):
    """Which versions of one model answer.

    Attributes:
        weights: By version; they need not add up to one. Empty sends everything to the version loaded last.
        shadow: Versions that see copies.
        canary: A version that takes over step by step.
    """

    weights: dict[str, float] = {}
    shadow: tuple[ShadowSettings, ...] = ()
    canary: CanarySettings | None = None

    def __post_init__(self) -> None:
        """Refuse weights that are no shares."""
        numbers = self.weights.values()
        right = all(0 <= one < math.inf for one in numbers) and (not numbers or 0 < sum(numbers) < math.inf)
        _require(right, "weights", self.weights, "numbers from 0, one of them above 0")
        _require(len(self.weights) <= _VERSIONS, "weights", len(self.weights), f"at most {_VERSIONS} versions")
        _require(len(self.shadow) <= _SHADOWS, "shadow", len(self.shadow), f"at most {_SHADOWS} versions")


class ClientSettings(Setting, frozen=True, kw_only=True):
    """One client.

    Attributes:
        name: What logs and figures call it.
        token_sha256: Of its token, in hexadecimal. A client without one is known by its certificate: by the common
            name, or else the first URI, DNS name or e-mail address in it.
        rate: Requests a second in the long run; 0 is without limit.
        burst: So many at once; 0 is one second's.
        concurrent: So many at a time; 0 is without limit.
        admin: Whether it may load, unload, and change the rollout.
    """

    name: str
    token_sha256: str = ""
    rate: float = 0.0
    burst: int = 0
    concurrent: int = 0
    admin: bool = False


class ServerSettings(Setting, frozen=True, kw_only=True):
    """The server itself.

    Attributes:
        host: Where it listens; anything but the loopback interface needs tokens or client certificates.
        port: REST; 0 takes any that is free, -1 none.
        grpc_port: gRPC; likewise.
        plane: ``auto`` takes the native extension where it is built; with TLS, where Python has OpenSSL 3, too.
        processes: So many processes on the same ports.
        body: At most so many bytes a request.
        connections: At most so many at a time.
        head_seconds: For a request's head to come.
        body_seconds: For its body.
        idle_seconds: Between two requests.
        drain_seconds: For what was accepted before the process ends.
        memory: Models are let go, the least recently used first, when their files are more than so many bytes; 0 is
            without limit.
        certificate: PEM file of the server's chain; with ``key``, everything is TLS.
        key: PEM file of its private key.
        client_authority: PEM file; only clients with a certificate by it are let in (mutual TLS).
        insecure: Whether plain HTTP may be spoken to other machines, and everybody may ask where there are no clients.
        state: File in which changes made over the API are kept, so that a restart, and every process of this server,
            has them; empty for none.
        access_log: ``stderr``, a file, or empty for none.
        prediction_log: Folder of the prediction log; empty for none.
        prediction_sample: Fraction of the requests that is logged.
        traces: Address of an OpenTelemetry collector (OTLP over HTTP); empty for none.
        deployment: What this server is called in the registry, which is told what runs here; empty tells it nothing.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    grpc_port: int = 8081
    plane: str = "auto"
    processes: int = 1
    body: int = 64 * 1024 * 1024
    connections: int = 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    idle_seconds: float = 75.0
    drain_seconds: float = 30.0
    memory: int = 0
    certificate: str = ""
    key: str = ""
    client_authority: str = ""
    insecure: bool = False
    state: str = ""
    access_log: str = ""
    prediction_log: str = ""
    prediction_sample: float = 1.0
    traces: str = ""
    deployment: str = ""


class Settings(Setting, frozen=True, kw_only=True):
    """Everything."""

    server: ServerSettings = ServerSettings()
    models: tuple[ModelSettings, ...] = ()
    ensembles: tuple[EnsembleSettings, ...] = ()
    routes: dict[str, RouteSettings] = {}
    clients: tuple[ClientSettings, ...] = ()
