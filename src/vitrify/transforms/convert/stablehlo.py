"""From an exported function of JAX to its StableHLO module, for every compiler that reads portable artifacts.

What asserts sizes is taken out: the signature says them, and only XLA knows the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.core.protocols import Written
from vitrify.core.report import Finding
from vitrify.formats._jax import ports
from vitrify.formats._stablehlo.live import assertion_free
from vitrify.formats._stablehlo.looks import read
from vitrify.formats._stablehlo.module import is_custom_call
from vitrify.formats.jax_export import JaxExport
from vitrify.formats.stablehlo import StableHlo, StableHloModule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jax import export

    from vitrify.core.plan import Step
    from vitrify.core.protocols import Sink, Subject

CARRIED = ("casts", "labels", "missing_text")
"""What an entry says of the signature, whatever the graph: it goes with every step."""


class JaxToStableHlo:
    """The step from ``jax-export`` to ``stablehlo``."""

    def problems(self, source: Subject, step: Step) -> tuple[Finding, ...]:
        """List what the module calls that is not in it, and what is no arithmetic."""
        del step
        exported = exported_of(source)
        module = read(memoryview(exported.mlir_module_serialized), where="module")
        calls = {one.target or "?" for one in module.walk() if is_custom_call(one.name)} - {"shape_assertion"}
        found = [
            Finding(
                place=f"custom call {target}",
                message="XLA alone has it: no other compiler of StableHLO knows what it does",
                remedy="compute it from operations of jax.numpy that StableHLO has, or keep the jax-export form",
            )
            for target in sorted(calls)
        ]
        effects = sorted(map(str, (*exported.ordered_effects, *exported.unordered_effects)))
        found += [Finding(place=f"effect {one}", message="a module has none", remedy="take it out") for one in effects]
        return tuple(found)

    def apply(self, source: Subject, step: Step, sink: Sink) -> Written:
        """Write the module."""
        del step
        exported = exported_of(source)
        module = StableHloModule(assertion_free(exported.mlir_module_serialized))
        written = StableHlo().write(module, sink, None)
        return Written(entry={**written.entry, **module_entry(exported, source.document.entry)}, names=written.names)


def exported_of(source: Subject) -> export.Exported:
    """Return the exported function that a subject holds."""
    exported: export.Exported = JaxExport().read(source.files, source.document.entry, source.allow)
    return exported


def module_entry(exported: export.Exported, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry for the module inside: its arguments and results by position, without inputs that are unused."""
    kept = {place: at for at, place in enumerate(exported.module_kept_var_idx)}
    places = {name: kept[at] for at, name in enumerate(ports.takes(exported)) if at in kept}
    results = {name: at for at, name in enumerate(ports.gives(exported))}
    return {
        "inputs": {ours: f"argument {places[name]}" for ours, name in entry["inputs"].items() if name in places},
        "outputs": {ours: f"result {results[name]}" for ours, name in entry["outputs"].items()},
        **{key: entry[key] for key in CARRIED if key in entry},
    }
