"""What an ONNX model could do to whoever loads or runs it.

* ``custom-operator``: an operator that neither the standard nor ONNX Runtime has, and that is no function of the
  model, runs native code (or, for ``ai.onnx.contrib``, Python) that has to be loaded into the process. Where the model
  asks for a newer standard than the table knows, a standard operator that is not in it is ``not checked``.
* ``native-operator``: an operator of ONNX Runtime that runs what is not in the graph.
* ``external-data-*``: see :mod:`.external`.
* ``tensor-size``: raw data of another length than the shape says.
* ``recursive-function``, ``function-bomb``: functions are expanded in place, so a circle of them or a tower of
  doublings never ends.
* ``session-config``, ``native-library``: metadata that configures the runtime, or names a library.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vitrify.core.report import Finding
from vitrify.formats._onnx.external import External
from vitrify.formats._onnx.model import Operator
from vitrify.formats._onnx.operators import NATIVE, STANDARD, known, newest
from vitrify.formats._onnx.recursion import functions
from vitrify.formats._protos.onnx import BITS, EXTERNAL, TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vitrify.core.protocols import Files
    from vitrify.formats._onnx.model import Model, Stored

_LIBRARIES = (".so", ".dll", ".dylib", ".pyd")


def hazards(model: Model, files: Files, name: str) -> Iterator[Finding]:
    """Yield each hazard, an operator once a kind.

    Raises:
        MalformedError: A part of the model is not what it should be.
        LimitExceededError: It has more parts than an honest model.
    """
    external = External(model, files, name)
    own = {(function.domain, function.name, function.overload) for function in model.functions()}
    opsets = model.opsets()
    seen: set[str] = set()
    for one in model.walk():
        if isinstance(one, Operator):
            # A runtime may prefer its own operator to a function of the same name.
            called = (one.node.domain, one.node.op_type, one.node.overload)
            if one.type not in seen and (called not in own or one.type in NATIVE):
                seen.add(one.type)
                yield from _operator(model, one, opsets.get(one.domain or "ai.onnx", 0))
            continue
        yield from external.tensor(one)
        yield from _size(model, one)
    yield from external.together()
    yield from functions(model)
    yield from _metadata(model)


def _operator(model: Model, one: Operator, version: int) -> Iterator[Finding]:
    place = f"{model.where}: {one.place}"
    if one.type in NATIVE:
        yield Finding(place=place, rule="native-operator", subject=one.type, message=f"{one.type} {NATIVE[one.type]}")
    elif one.domain in STANDARD and not known(one.domain, one.node.op_type) and version > newest(one.domain):
        yield Finding(
            place=place,
            rule="unknown-operator",
            subject=one.type,
            message=f"{one.type} is not known here; the model asks for version {version} of {one.domain or 'ai.onnx'},"
            f" and {newest(one.domain)} is the newest that is",
            remedy="update Vitrify",
            verdict="not checked",
        )
    elif not known(one.domain, one.node.op_type):
        subject = one.type if one.domain else f"ai.onnx.{one.type}"
        yield Finding(
            place=place,
            rule="custom-operator",
            subject=subject,
            message=f"{subject} is no operator of the standard or of ONNX Runtime: it runs code of a library that would"
            " have to be loaded",
            remedy="allow it by this exact name if you know the library",
        )


def _size(model: Model, stored: Stored) -> Iterator[Finding]:
    shape, kind = model.shape(stored), stored.tensor.data_type
    held = model.document.size(stored.tensor.raw_data)
    if not held or stored.tensor.data_location == EXTERNAL:
        return
    bits = BITS[TYPES[kind]] if 0 < kind < len(TYPES) else 0
    needed = -(-math.prod(shape) * bits // 8)
    if bits and held != needed:
        yield Finding(
            place=f"{model.where}: {stored.place}, tensor {stored.name!r}",
            rule="tensor-size",
            subject=stored.name,
            message=f"has {held} bytes of data, its shape {list(shape)} of {TYPES[kind]} needs {needed}: a reader that"
            " trusts either reads past the end",
        )


def _metadata(model: Model) -> Iterator[Finding]:
    for pair in model.document.each(model.root, "metadata_props"):
        place = f"{model.where}: metadata {pair.key!r}"
        if pair.key == "ort_config":
            yield Finding(
                place=place,
                rule="session-config",
                subject=pair.key,
                message="configures the session of ONNX Runtime where its environment allows that",
            )
        if pair.value.strip().lower().endswith(_LIBRARIES):
            yield Finding(
                place=place,
                rule="native-library",
                subject=pair.value.strip(),
                message=f"names a native library, {pair.value.strip()!r}: whoever loads it runs its code",
            )
