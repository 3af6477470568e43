"""Modules in the hands of MLIR itself (``jaxlib.mlir``): read, stripped of places, refined, written as portable.

Source: compatibility, https://openxla.org/stablehlo/compatibility; dynamism, https://openxla.org/stablehlo/dynamism
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from jaxlib.mlir import ir, passmanager
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

from vitrify.core.errors import MalformedError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAGIC = b"ML\xefR"
_ASSERTION = "shape_assertion"
_MAX_REASON = 400
_INLINE = "func.func(stablehlo-legalize-composite-to-call), inline"
_HEAD = "Failure while executing pass pipeline:"

stablehlo.register_stablehlo_passes()


@contextmanager
def parsed(data: bytes, *, where: str = "module") -> Iterator[ir.Module]:
    """Give the module that bytes are, text or bytecode, portable or not; it is gone when the block ends.

    Raises:
        MalformedError: MLIR cannot read them.
    """
    with _context() as context:
        try:
            module = _parse(context, data)
        except Exception as error:
            msg = f"{where}: MLIR cannot read this module ({str(error).strip()[:_MAX_REASON]})"
            raise MalformedError(msg, remedy="export it again with this version of JAX") from error
        yield module


def portable(module: ir.Module, *, foreign: bool = False) -> bytes:
    """Return a module as a portable artifact that readers of a month ago can read, as JAX itself promises.

    Args:
        module: The module.
        foreign: Whether operations of other dialects, which are not portable, may stay.

    Raises:
        UnsupportedModelError: It has operations that portable artifacts do not.
    """
    month = stablehlo.StablehloCompatibilityRequirement.WEEK_4
    version = stablehlo.get_version_from_compatibility_requirement(month)
    try:
        return bytes(stablehlo.serialize_portable_artifact(module, version, foreign))
    except Exception as error:
        msg = f"the module has no portable form ({str(error).strip()[:_MAX_REASON]})"
        raise UnsupportedModelError(msg, remedy="leave out what only one compiler has") from error


def without_places(data: bytes, *, foreign: bool = False, where: str = "module") -> bytes:
    """Return a module as a portable artifact without the places in source files where it came from."""
    with parsed(data, where=where) as module:
        _run(module, "strip-debuginfo")
        return portable(module, foreign=foreign)


def main(module: ir.Module) -> ir.Operation:
    """Return the function that is called from outside.

    Raises:
        MalformedError: There is none.
    """
    functions = [one for one in module.body.operations if one.operation.name == "func.func"]
    for one in functions:
        if ir.StringAttr(one.attributes["sym_name"]).value == "main":
            return one
    public = [one for one in functions if "sym_visibility" not in one.attributes]
    if not public:
        msg = "the module has no function that can be called from outside"
        raise MalformedError(msg, remedy="export it again")
    return public[0]


def refined(data: bytes, shapes: Sequence[Sequence[int]]) -> bytes:
    """Return the module for inputs of these shapes, no size left open.

    Raises:
        UnsupportedModelError: A shape does not follow from them.
    """
    with parsed(data) as module:
        drop_assertions(module.operation)
        arguments = main(module).regions[0].blocks[0].arguments
        kinds = ",".join(
            str(ir.RankedTensorType.get(list(shape), ir.RankedTensorType(argument.type).element_type))
            for shape, argument in zip(shapes, arguments, strict=True)
        )
        try:
            _run(module, _INLINE)
            _run(module, f"stablehlo-refine-arguments{{types={kinds}}}, stablehlo-refine-shapes")
            _run(module, "func.func(stablehlo-canonicalize-dynamism), canonicalize")
        except Exception as error:
            reason = " ".join(str(error).removeprefix(_HEAD).split())[:_MAX_REASON]
            msg = f"the sizes in this module do not follow from its inputs' ({reason})"
            raise UnsupportedModelError(msg, remedy="export it with fixed sizes") from error
        return portable(module)


def assertion_free(data: bytes) -> bytes:
    """Return a module without what asserts sizes, as a portable artifact."""
    with parsed(data) as module:
        drop_assertions(module.operation)
        return portable(module)


def without_composites(data: bytes) -> bytes:
    """Return a module that calls what its composites are written out as; the same bytes where there are none."""
    with parsed(data) as module:
        if not _has(module.operation, "stablehlo.composite"):
            return data
        _run(module, _INLINE)
        return portable(module)


def _has(operation: ir.Operation, name: str) -> bool:
    inside = (inner.operation for region in operation.regions for block in region for inner in block)
    return any(one.name == name or _has(one, name) for one in inside)


def drop_assertions(operation: ir.Operation) -> None:
    """Take out what asserts sizes: a signature has checked them, and only XLA knows the call."""
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                if inner.operation.name == "stablehlo.custom_call" and _target(inner) == _ASSERTION:
                    inner.operation.erase()
                else:
                    drop_assertions(inner.operation)


def _target(operation: ir.Operation) -> str:
    return str(ir.StringAttr(operation.attributes["call_target_name"]).value)


def _run(module: ir.Module, passes: str) -> None:
    passmanager.PassManager.parse(f"builtin.module({passes})").run(module.operation)


def _parse(context: ir.Context, data: bytes) -> ir.Module:
    if data[: len(MAGIC)] == MAGIC:
        try:
            return stablehlo.deserialize_portable_artifact(context, data)
        except Exception:  # noqa: BLE001 (bytecode of the dialects themselves)
            return ir.Module.parse(data)
    return ir.Module.parse(data)


@contextmanager
def _context() -> Iterator[ir.Context]:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    with ir.Context() as context:
        context.append_dialect_registry(registry)
        for dialect in (chlo, stablehlo):
            dialect.register_dialect(context)
        mhlo.register_mhlo_dialect(context)
        sdy.register_dialect(context)
        context.load_all_available_dialects()
        with ir.Location.unknown():
            yield context
