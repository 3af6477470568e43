"""The model repository extension over REST: what there is, load, unload.

``load`` takes, as ``parameters.config``, the JSON text of :class:`vitrify.serve.settings.ModelSettings`: where the
model comes from and how it is to be served; or that of :class:`vitrify.serve.settings.EnsembleSettings`. Without it
what is known is loaded again, and a model that is not is looked for by its name.

Source: ``docs/protocol/extension_model_repository.md`` of https://github.com/triton-inference-server/server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import DeniedError, NotOfferedError
from vitrify.serve.protocols import _json
from vitrify.serve.protocols._described import DescribedRoute, an_array, an_object
from vitrify.serve.protocols._json import JSON
from vitrify.serve.settings import OF_ENSEMBLES, ModelSettings, from_client
from vitrify.serve.web import Answer, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from vitrify.serve.models import Engine
    from vitrify.serve.settings import Loadable
    from vitrify.serve.web import Call

_TEXT = {"type": "string"}
_INDEX = an_array(
    an_object({"name": _TEXT, "version": _TEXT, "state": _TEXT, "reason": _TEXT}, "name", "version", "state", "reason")
)
_ASKED = an_object({"ready": {"type": "boolean"}})
_LOAD = an_object({"parameters": an_object({"config": _TEXT})})
_UNLOAD = an_object({"parameters": an_object({"unload_dependents": {"type": "boolean"}})})
_FILE = "file:"


def repository_routes(engine: Engine, is_admin: Callable[[str], bool]) -> tuple[Route, ...]:
    """Return the extension's routes."""
    repository = Repository(engine, is_admin)
    rows: tuple[tuple[str, Any, str, dict[str, Any], dict[str, Any]], ...] = (
        ("/v2/repository/index", repository.index, "List every version that is known.", _ASKED, {JSON: _INDEX}),
        ("/v2/repository/models/{model}/load", repository.load, "Load a model, or load it again.", _LOAD, {}),
        ("/v2/repository/models/{model}/unload", repository.unload, "Let go of a model.", _UNLOAD, {}),
    )
    return tuple(
        DescribedRoute(
            *("POST", pattern, endpoint, f"repository/{pattern.rpartition('/')[2]}", _json.error_answer),
            summary=summary,
            takes={JSON: takes},
            needs_body=False,
            gives=gives,
        )
        for pattern, endpoint, summary, takes, gives in rows
    )


@dataclass(frozen=True)
class Repository:
    """What may be asked of the repository.

    Attributes:
        engine: Loads.
        is_admin: Whether a client may.
    """

    engine: Engine
    is_admin: Callable[[str], bool]

    async def index(self, call: Call) -> Answer:
        """List the versions, on request only those that are ready."""
        body = _json.request(call.body) if call.body else {}
        only_ready = "ready" in body and _json.plain(body["ready"], "ready", bool)
        return _json.answer(
            [
                {"name": one.name, "version": one.version, "state": one.state, "reason": one.reason}
                for one in self.engine.index()
                if one.state == "READY" or not only_ready
            ]
        )

    async def load(self, call: Call) -> Answer:
        """Load what the configuration says, or what was loaded before."""
        self._require_admin(call)
        model = call.fields["model"]
        body = _json.request(call.body) if call.body else {}
        parameters = _json.plain(body["parameters"], "parameters", dict[str, Any]) if "parameters" in body else {}
        if any(name.startswith(_FILE) for name in parameters):
            msg = "parameters: files cannot be sent with a load; an artifact is what its digest says"
            raise NotOfferedError(msg, remedy="save or push the artifact, and load it by its reference")
        for settings in settings_of(self.engine, model, parameters.get("config")):
            await self.engine.load(settings)
        return Answer()

    async def unload(self, call: Call) -> Answer:
        """Drain and let go of all versions of a model."""
        self._require_admin(call)
        if call.body:
            _json.request(call.body)
        await self.engine.unload(call.fields["model"])
        return Answer()

    def _require_admin(self, call: Call) -> None:
        if not self.is_admin(call.client):
            msg = "loading and unloading models needs a client that is admin"
            raise DeniedError(msg, remedy="use the token of one, or set admin = true for this client")


def settings_of(engine: Engine, model: str, config: Any) -> tuple[Loadable, ...]:
    """Return what is to be loaded: one set of settings a version.

    Args:
        engine: Knows what was loaded before.
        model: The name that it is to be served by.
        config: The settings as JSON text; None for none.

    Raises:
        MalformedError: It is no JSON.
        UsageError: A setting is unknown or has the wrong type.
        DeniedError: It names a program of this machine.
    """
    if config is None:
        return engine.settings(model) or (ModelSettings(reference=model, name=model),)
    text = config.encode() if isinstance(config, str) else _json.answer(config).body
    assert isinstance(text, bytes)
    given = {name: _json.plain(value, name) for name, value in _json.request(text, "parameters.config").items()}
    about = {"reference": model} if given.keys().isdisjoint(OF_ENSEMBLES) else {}
    return (from_client({**about, **given, "name": model}, where="parameters.config"),)
