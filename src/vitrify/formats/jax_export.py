"""Functions that JAX exported (``jax.export``, ``Exported.serialize``): a FlatBuffer around a StableHLO module.

Functions and modules are exported for the CPU, with every dimension free that the signature names; weights are
constants inside. Places in the user's source are left out.

The entry, beside :mod:`vitrify.runtimes._ports`'s ``inputs`` and ``outputs``: ``shapes``, output to its sizes.

Specification: https://docs.jax.dev/en/latest/export/export.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UsageError
from vitrify.core.protocols import Written
from vitrify.formats import _tail
from vitrify.reading.files import head, only
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import jax.export

    from vitrify.core.graph import Graph
    from vitrify.core.protocols import Allow, Example, Files, Sink
    from vitrify.core.report import Finding
    from vitrify.core.signature import Signature
    from vitrify.formats._jax.exported import Aval, Exported

FILE = "model.jax"
_LEAST = 64
_MAX_REASON = 400


class JaxExport:
    """The format of exported functions: what they compute is the module inside, that of their gradients too."""

    def detect(self, files: Files) -> bool:
        """Say whether it is a FlatBuffer with a version, platforms and a module where an exported function has them."""
        start = head(files, 8)
        # The root lies near the start, at a multiple of four: a look that spares the rest for most files.
        if start[2:4] != b"\0\0" or not start[0] or start[0] % 4:
            return False
        from vitrify.formats._jax.exported import looks_like

        name = only(files)
        return name is not None and len(files.map(name)) > _LEAST and looks_like(files.map(name))

    def describe(self, files: Files, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return versions, platforms, inputs and outputs, effects, disabled checks, and the facts of the module.

        Raises:
            MalformedError: It is no exported function, or its module is malformed.
        """
        from vitrify.formats._stablehlo.looks import facts, read

        name, one = _parse(files, entry)
        inside = facts(read(one.module, where=f"{name}: module"))
        versions = {**inside.pop("versions"), "serialization": one.version, "calling_convention": one.convention}
        ports = {"inputs": _ports(one.inputs, "input"), "outputs": _ports(one.outputs, "output")}
        needs = [*inside.pop("needs", ()), *(f"the class {each}, registered with JAX" for each in one.classes)]
        found: dict[str, Any] = {
            **inside,
            "producer": f"JAX, {inside['producer']}",
            "versions": versions,
            **ports,
            "function": one.name,
            "structure": one.structure[:1000],
            "platforms": list(one.platforms),
            "devices": one.devices,
            "effects": list(one.effects),
            "disabled_checks": list(one.disabled),
            "bytes": len(one.module),
            "gradients": sum(1 for _ in _all(one)) - 1,
        }
        return {**found, "needs": needs} if needs else found

    def hazards(self, files: Files, entry: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield custom calls of the module and those of gradients, checks that were switched off, and foreign classes.

        Raises:
            MalformedError: It is no exported function, or a module is malformed.
        """
        from vitrify.core.report import Finding
        from vitrify.formats._stablehlo.looks import hazards, read

        name, one = _parse(files, entry)
        for order, each in enumerate(_all(one)):
            place = f"{name}: module" if order == 0 else f"{name}: gradient {order}"
            yield from hazards(read(each.module, where=place), place)
        for kind in sorted({each for part in _all(one) for each in part.classes}):
            message = f"has values of the class {kind!r:.100}: reading it calls what is registered for that name"
            remedy = "find out what is registered; allow it by its exact name if it is yours"
            yield Finding(place=name, message=message, rule="custom-class", subject=kind, remedy=remedy)
        yield from _tail.hidden(files.map(name), one.end, name)

    def parts(self, files: Files, entry: Mapping[str, Any]) -> Iterator[tuple[str, Files]]:
        """Yield what stands behind the function."""
        name, one = _parse(files, entry)
        return _tail.parts(files.map(name), one.end)

    def graph(self, files: Files, entry: Mapping[str, Any]) -> Graph:
        """Return the module's main function.

        Raises:
            MalformedError: It is no exported function, or its module is malformed.
        """
        from vitrify.formats._stablehlo.looks import graph, read

        name, one = _parse(files, entry)
        return graph(read(one.module, where=f"{name}: module"))

    def write(self, model: Any, sink: Sink, example: Example | None) -> Written:
        """Write an exported function, or export a function or module and write it; the model is left as it was.

        Raises:
            UnsupportedModelError: JAX cannot export it, or it holds what only this process has.
            ModelError: It rejects the example.
        """
        from jax import export

        from vitrify.formats._jax import trace

        if isinstance(model, export.Exported):
            exported = trace.stripped(model)
        elif example is None:
            msg = "exporting a function of JAX takes an example of what it is called with"
            raise UsageError(msg, remedy="pass example=, or an exported function (jax.export.export)")
        else:
            exported = trace.trace(model, example.signature)
        notes = ("exported in eval mode; the module was in training mode",) if trace.trains(model) else ()
        written = write_exported(exported, sink, example.signature if example else None)
        return Written(entry=written.entry, names=written.names, notes=notes)

    def read(self, files: Files, entry: Mapping[str, Any], allow: Allow) -> Any:
        """Return the exported function.

        Raises:
            UntrustedCodeError: It calls what somebody registered, or has values of a registered class, and ``allow``
                does not name it.
            MalformedError: It is no exported function, or its module is malformed.
        """
        from jax import export

        name, _ = _parse(files, entry)
        allow.require(sorted(_foreign(self.hazards(files, entry))), what=name)
        try:
            return export.deserialize(bytearray(files.read(name)))
        except Exception as error:
            msg = f"{name}: JAX cannot read this exported function ({str(error).strip()[:_MAX_REASON]})"
            raise MalformedError(msg, remedy="export it again with this version of JAX") from error


def write_exported(exported: jax.export.Exported, sink: Sink, signature: Signature | None) -> Written:
    """Write an exported function that a signature's arrays are given to, as converters do as well.

    Raises:
        ModelError: It does not take what the signature has.
    """
    from vitrify.formats._jax import ports
    from vitrify.reading.files import HeldFiles

    data = bytes(exported.serialize())
    with sink.open(FILE, "weight") as stream:
        stream.write(data)
    entry: dict[str, Any] = {"file": FILE, **ports.names(exported, signature)}
    held = HeldFiles({FILE: memoryview(data)})
    return Written(entry=entry, names=tuple(sorted(_foreign(JaxExport().hazards(held, entry)))))


def _foreign(findings: Iterator[Finding]) -> set[str]:
    return {finding.subject for finding in findings if finding.subject}


def _parse(files: Files, entry: Mapping[str, Any]) -> tuple[str, Exported]:
    from vitrify.formats._jax.exported import parse

    name = str(entry.get("file") or only(files) or "")
    if not name:
        refuse("this directory", "is not one exported function")
    return name, parse(files.map(name), where=name)


def _all(one: Exported) -> Iterator[Exported]:
    """Yield a function, its gradient, that one's gradient, and so on."""
    left: Exported | None = one
    while left is not None:
        yield left
        left = left.gradient


def _ports(avals: tuple[Aval, ...], what: str) -> list[dict[str, Any]]:
    from vitrify.formats import _facts

    return [_facts.port(f"{what} {at}", one.type, one.shape) for at, one in enumerate(avals)]
