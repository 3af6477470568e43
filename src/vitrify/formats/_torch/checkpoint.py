"""What a file of ``torch.save`` holds, checked and nothing of it made: its pickle, its tensors, what was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError
from vitrify.core.report import Finding
from vitrify.formats._torch import modules
from vitrify.formats._torch.dialect import REBUILDS, TorchDialect
from vitrify.formats._torch.elements import SIZES
from vitrify.formats._torch.tensors import Storage, Stored, tensors
from vitrify.pickles import inert
from vitrify.reading.malformed import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vitrify.pickles.machine import Audit


@dataclass(frozen=True)
class Checkpoint:
    """What was found, nothing of it made.

    Attributes:
        layout: ``zip``, ``legacy`` or ``tar``.
        pickle: The bytes of the object's pickle.
        dialect: What it was read in, with the storages that it refers to.
        audit: What the pickle machine says about it.
        findings: All there are, about the container, the pickles and the objects.
        tensors: The tensors, each checked against its storage.
        data: The bytes of each storage, by key.
        facts: What the container says besides, as JSON.
    """

    layout: str
    pickle: memoryview
    dialect: TorchDialect
    audit: Audit
    findings: tuple[Finding, ...]
    tensors: list[Stored]
    data: Mapping[str, memoryview]
    facts: dict[str, Any]


def assemble(
    kind: str,
    pickle: memoryview,
    dialect: TorchDialect,
    audited: Audit,
    *,
    where: str,
    findings: Iterable[Finding],
    data: Mapping[str, memoryview],
    facts: dict[str, Any],
) -> Checkpoint:
    """Put a checkpoint together from what was found in the container (``findings``) and what its pickle holds."""
    held: list[Stored] = []
    found = [*findings, *_objects(audited.root, where)]
    try:
        held = tensors(audited.root, where=where)
        for storage in {one.storage.key: one.storage for one in held}.values():
            _check(dialect.storages.get(storage.key, storage), data, where)
    except MalformedError as error:
        found.append(Finding(place=where, message=error.message, rule="malformed-tensor", remedy=error.remedy))
    return Checkpoint(kind, pickle, dialect, audited, tuple(found), held, data, facts)


def _check(storage: Storage, data: Mapping[str, memoryview], where: str) -> None:
    wanted, size = storage.count * SIZES[storage.type], len(data.get(storage.key, b""))
    if size < wanted:
        refuse(where, f"storage {storage.key!r:.200} has {size} bytes, and {wanted} are needed")


def _objects(root: Any, where: str) -> Iterator[Finding]:
    """Yield what is wrong with modules and tensors: hooks, constructors that are called, a state put on a tensor."""
    for value in inert.walk(root):
        if not isinstance(value, inert.Call):
            continue
        place = f"{where}:opcode {value.at}"
        if value.dotted in REBUILDS and (value.made or value.states):
            message = f"puts a state on what {value.dotted} returns, which PyTorch's own writer never does"
            yield Finding(place=place, message=message, rule="tensor-state")
        if value.dotted in modules.MODULES:
            if not value.made:
                message = f"calls {value.dotted} with arguments of its own, which could fill the memory"
                yield Finding(place=place, message=message, rule="untrusted-global", subject=value.dotted)
            for state in value.states:
                yield from _hooks(state, value.dotted, place)


def _hooks(state: Any, module: str, place: str) -> Iterator[Finding]:
    """Yield the hooks of a module that are not empty: they would be called whenever it predicts."""
    for key, value in state.items() if isinstance(state, inert.Dict) else ():
        held = isinstance(value, inert.Call) and (value.flat or value.states or value.appended or any(value.args))
        if "hook" in key and (held or (isinstance(value, inert.Dict | list | tuple) and len(value))):
            message = f"gives {module} hooks ({key}), which would run whenever it predicts"
            yield Finding(place=place, message=message, rule="module-hooks", subject=f"{module}.{key}")
