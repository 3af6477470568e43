"""31 to 43: reach a function without ever naming it."""

from __future__ import annotations

import marshal

from corpus import Case, data
from corpus.assemble import (
    BUILD,
    EMPTY_DICT,
    EMPTY_TUPLE,
    POP,
    REDUCE,
    SETITEM,
    TUPLE1,
    blob,
    call,
    late_name,
    name,
    program,
    source,
    text,
    touch,
)  # fmt: skip


def _import(module: str) -> bytes:
    return call(name("importlib", "import_module"), text(module))


def _getattr(value: bytes, attribute: str) -> bytes:
    return call(name("builtins", "getattr"), value, text(attribute))


def _run(function: bytes, marker: str) -> bytes:
    return program(function, text(touch(marker)), TUPLE1, REDUCE)


def _marshal(marker: str) -> bytes:
    code = marshal.dumps(compile(source(marker), "x", "exec"))
    loaded = call(name("marshal", "loads"), blob(code))
    function = call(name("types", "FunctionType"), loaded, EMPTY_DICT + text("open") + name("io", "open") + SETITEM)
    return program(function, EMPTY_TUPLE, REDUCE)


def _numpy_build(marker: str) -> bytes:
    """BUILD on a function sets its attributes; here its globals' way in is only tried, which is enough to be refused."""
    state = EMPTY_DICT + text("__wrapped__") + name("os", "system") + SETITEM
    return program(name("numpy", "size"), state, BUILD, POP, call(name("os", "system"), text(touch(marker))))


def _joined(marker: str) -> bytes:
    join = call(name("builtins", "getattr"), text(""), text("join"))
    word = call(join, b"](" + text("sys") + text("tem") + b"e")
    return _run(call(name("builtins", "getattr"), _import("os"), word), marker)


HOSTILE = (
    Case("31", "getattr and import_module", data(lambda m: _run(_getattr(_import("os"), "system"), m)), "pickle"),
    Case("32", "pkgutil resolve_name", data(lambda m: _run(call(name("pkgutil", "resolve_name"), text("os:system")), m)), "pickle"),
    Case("33", "attrgetter", data(lambda m: _run(call(call(name("operator", "attrgetter"), text("system")), _import("os")), m)), "pickle"),
    Case("34", "methodcaller", data(lambda m: program(call(call(name("operator", "methodcaller"), text("system"), text(touch(m))), _import("os")))), "pickle"),
    Case("35", "partial", data(lambda m: program(call(name("functools", "partial"), name("os", "system"), text(touch(m))), EMPTY_TUPLE, REDUCE)), "pickle"),
    Case("36", "pydoc locate", data(lambda m: _run(call(name("pydoc", "locate"), text("os.system")), m)), "pickle"),
    Case("37", "names joined from parts", data(_joined), "pickle"),
    Case("38", "numpy builtins", data(lambda m: program(call(call(late_name("numpy", "__builtins__.get"), text("exec")), text(source(m))))), "pickle"),
    Case("39", "logging config resolve", data(lambda m: _run(call(name("logging.config", "_resolve"), text("os.system")), m)), "pickle"),
    Case("40", "BUILD on a function of numpy", data(_numpy_build), "pickle"),
    Case("41", "sys modules get", data(lambda m: _run(_getattr(call(late_name("sys", "modules.get"), text("os")), "system"), m)), "pickle"),
    Case("42", "marshal and FunctionType", data(_marshal), "pickle"),
    Case("43", "starmap", data(lambda m: program(call(name("builtins", "list"), call(name("itertools", "starmap"), name("os", "system"), b"((" + text(touch(m)) + b"tt")))), "pickle"),
)  # fmt: skip
