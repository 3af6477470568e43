"""1 to 60 once more, after the same techniques with other modules and other bytes: what no list of bad names has."""

from __future__ import annotations

import py_compile
from typing import TYPE_CHECKING

from corpus import Case, data
from corpus.assemble import (
    APPEND,
    BUILD,
    DUP,
    EMPTY_DICT,
    EMPTY_LIST,
    EMPTY_TUPLE,
    MARK,
    MEMOIZE,
    NONE,
    OBJ,
    POP,
    REDUCE,
    SETITEM,
    TUPLE1,
    TUPLE2,
    blob,
    call,
    late_name,
    name,
    number,
    program,
    source,
    text,
    touch,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable

    Part = bytes | Callable[[str], bytes]

SYSTEM = name("posix", "system")


def _listed(*items: bytes) -> bytes:
    return EMPTY_LIST + MARK + b"".join(items) + b"e"


def _shell(marker: str) -> bytes:
    return text(touch(marker))


def _source(marker: str) -> bytes:
    return text(source(marker))


def _path(marker: str) -> bytes:
    return text(marker)


def _words(marker: str) -> bytes:
    return _listed(text("touch"), text(marker))


def _folder(marker: str) -> bytes:
    return text(marker.rpartition("/")[0])


def _array(marker: str) -> bytes:
    return call(name("numpy", "ones"), number(2))


def _matrix(marker: str) -> bytes:
    return call(name("scipy.sparse", "csr_matrix"), _listed(_listed(number(1))))


def _code(marker: str) -> bytes:
    return call(name("builtins", "compile"), text(source(marker)), text("x"), text("exec"))


def _each(function: bytes, argument: Part) -> Callable[[str], bytes]:
    """Return a lazy call of a function with one argument."""
    return lambda m: call(name("builtins", "map"), function, _listed(argument(m) if callable(argument) else argument))


def _open(marker: str) -> bytes:
    return call(name("_io", "open"), text(marker), text("w"))


def _case(technique: str, dotted: str, *arguments: Part, runs: str = "pickle", what: str = "") -> Case:
    """Return the case of a pickle that calls ``module:name`` with arguments that may be made from the marker."""
    module, _, function = dotted.partition(":")

    def made(marker: str) -> bytes:
        return program(call(late_name(module, function), *(one(marker) if callable(one) else one for one in arguments)))

    return Case(technique, f"{what}{' ' * bool(what)}{module} {function}", data(made), runs)


def _written(technique: str, what: str, content: Callable[[str], bytes], runs: str = "pickle") -> Case:
    return Case(technique, what, data(content), runs)


PROGRAMS = (
    _case("44v", "subprocess:getoutput", _shell),
    _case("44v", "subprocess:getstatusoutput", _shell),
    _case("44v", "subprocess:check_call", _words),
    _case("44v", "subprocess:check_output", _words),
    _case("44v", "subprocess:run", _words),
    _case("44v", "os:popen", _shell),
    _case("44v", "os:spawnlp", number(0), text("touch"), text("touch"), _path),
    _case("44v", "os:spawnvp", number(0), text("touch"), _words),
    _case("44v", "os:execlp", text("touch"), text("touch"), _path),
    _case("44v", "os:execvp", text("touch"), _words),
    _case("44v", "pty:spawn", _words),
    _case("44v", "runpy:_run_code", _code, EMPTY_DICT),
    _case("45v", "timeit:repeat", _source, text("pass"), name("time", "perf_counter"), number(1), number(1)),
    _case("46v", "profile:run", _source),
    _case("47v", "bdb:Bdb.run", call(name("bdb", "Bdb")), _source),
    _case("48v", "trace:Trace.run", call(name("trace", "Trace")), _source),
    _case("49v", "code:InteractiveInterpreter.runcode", call(name("code", "InteractiveInterpreter")), _code),
    _case("49v", "builtins:exec", _code, what="code from"),
    _case("55v", "numpy.testing:measure", _source, number(1)),
    _case("56v", "ctypes:CDLL.__getitem__", call(name("ctypes", "CDLL"), NONE), text("system"), runs=""),
    _case("56v", "numpy.ctypeslib:load_library", text("libnothing"), text("/nowhere"), runs=""),
    _case("59v", "_pickle:loads", lambda m: blob(program(call(SYSTEM, text(touch(m)))))),
    _case("59v", "pickle:_loads", lambda m: blob(program(call(SYSTEM, text(touch(m)))))),
    _case(
        "59v", "multiprocessing.reduction:ForkingPickler.loads", lambda m: blob(program(call(SYSTEM, text(touch(m)))))
    ),
    _case("59v", "pandas:read_pickle", text("http://localhost:9/x.pkl"), runs=""),
    _case("59v", "torch.jit:load", text("next.pt"), runs=""),
    _case("59v", "sklearn.datasets:load_svmlight_file", text("/etc/hostname"), runs=""),
    _case("60v", "importlib:import_module", text("this"), runs=""),
)

FILES = (
    _case("57v", "os:mkdir", _path),
    _case("57v", "os:mkfifo", _path),
    _case("57v", "os:symlink", text("nothing"), _path),
    _case("57v", "os:open", _path, number(0o101)),
    _case("57v", "shutil:copyfile", text(py_compile.__file__), _path),
    _case("57v", "py_compile:compile", text(py_compile.__file__), _path),
    _case("57v", "tempfile:mkdtemp", text(""), text("marker"), _folder),
    _case("57v", "tempfile:mkstemp", text(""), text("marker"), _folder),
    _case("57v", "logging.handlers:RotatingFileHandler", _path),
    _case("57v", "codecs:open", _path, text("w")),
    _case("57v", "_pyio:open", _path, text("w")),
    _case("57v", "bz2:BZ2File", _path, text("w")),
    _case("57v", "lzma:open", _path, text("w")),
    _case("57v", "dbm.dumb:open", _path, text("n")),
    _case("57v", "wave:open", _path, text("wb")),
    _case("57v", "zipfile:PyZipFile", _path, text("w")),
    _case("57v", "pathlib:Path.mkdir", lambda m: call(name("pathlib", "Path"), text(m))),
    _case("57v", "xml.etree.ElementTree:ElementTree.write", call(name("xml.etree.ElementTree", "ElementTree"), call(name("xml.etree.ElementTree", "Element"), text("a"))), _path),
    _case("58v", "numpy:save", _path, _array),
    _case("58v", "numpy:savez_compressed", _path, _array),
    _case("58v", "numpy.lib.format:open_memmap", _path, text("w+"), text("f8"), number(2) + TUPLE1),
    _case("58v", "scipy.io:savemat", _path, EMPTY_DICT),
    _case("58v", "scipy.sparse:save_npz", _path, _matrix),
    _case("58v", "pandas.io.pickle:to_pickle", number(1), _path),
    _case("58v", "sklearn.datasets:get_data_home", _path),
    _case("58v", "joblib.memory:Memory", _path),
    _case("58v", "torch:save", number(1), _path),
)  # fmt: skip

RESOLVERS = (
    _case("31v", "builtins:list", _each(SYSTEM, _shell), what="map and"),
    _case("31v", "builtins:tuple", _each(name("builtins", "eval"), _source), what="map and"),
    _case("31v", "builtins:frozenset", _each(name("builtins", "exec"), _source), what="map and"),
    _case("31v", "collections:deque", _each(SYSTEM, _shell), what="map and"),
    _case("31v", "collections:Counter", _each(SYSTEM, _shell), what="map and"),
    _case("31v", "builtins:bytes", _each(SYSTEM, _shell), what="map and"),
    _case("31v", "builtins:sum", _each(SYSTEM, _shell), what="map and"),
    _written("31v", "__import__ and getattr", lambda m: program(call(call(name("builtins", "getattr"), call(name("builtins", "__import__"), text("posix")), text("system")), _shell(m)))),
    _written("31v", "reduce over getattr", lambda m: program(call(call(name("functools", "reduce"), name("builtins", "getattr"), _listed(text("system")), call(name("importlib", "import_module"), text("os"))), _shell(m)))),
    _written("32v", "resolver of a logging configuration", lambda m: program(call(call(late_name("logging.config", "BaseConfigurator.resolve"), call(name("logging.config", "BaseConfigurator"), EMPTY_DICT), text("os.system")), _shell(m)))),
    _written("33v", "vars of a module", lambda m: program(call(call(late_name("operator", "getitem"), call(name("builtins", "vars"), call(name("importlib", "import_module"), text("os"))), text("system")), _shell(m)))),
    _written("35v", "partial of a partial", lambda m: program(call(call(name("functools", "partial"), call(name("functools", "partial"), name("operator", "call"), SYSTEM), _shell(m))))),
    _written("35v", "a bound method", lambda m: program(call(call(name("types", "MethodType"), SYSTEM, _shell(m))))),
    _written("40v", "BUILD of a partial", lambda m: program(call(call(name("functools", "partial"), name("builtins", "abs")) + MARK + SYSTEM + _shell(m) + TUPLE1 + EMPTY_DICT + NONE + b"t" + BUILD))),
    _written("40v", "BUILD of a distribution", lambda m: program(name("scipy.stats._continuous_distns", "norm_gen") + EMPTY_TUPLE + b"\x81" + EMPTY_DICT + text("_parse_arg_template") + _source(m) + SETITEM + text("moment_type") + number(0) + SETITEM + BUILD)),
    _written("41v", "dictionary of builtins", lambda m: program(call(late_name("builtins", "__dict__.get"), text("exec")), POP, call(call(late_name("builtins", "__dict__.get"), text("exec")), _source(m)))),
    _written("42v", "marshal and exec", lambda m: program(call(name("builtins", "exec"), call(name("marshal", "loads"), blob(__import__("marshal").dumps(compile(source(m), "x", "exec"))))))),
    _written("43v", "accumulate", lambda m: program(call(name("builtins", "list"), call(name("itertools", "accumulate"), _listed(number(1), number(2)), name("builtins", "divmod"))), POP, call(SYSTEM, _shell(m)))),
)  # fmt: skip

OPCODES = (
    _written("1v", "posix in protocol 1", lambda m: b"cposix\nsystem\n(" + text(touch(m)) + b"tR."),
    _written("2v", "names from the memo", lambda m: program(text("posix"), MEMOIZE, POP, text("system"), MEMOIZE, POP, b"h\x00h\x01\x93", _shell(m), TUPLE1, REDUCE)),
    _written("3v", "eval of a comprehension", lambda m: program(call(name("builtins", "eval"), text(f"[open(one, 'w').close() for one in ({m!r},)]")))),
    _written("4v", "INST of eval", lambda m: MARK + text(source(m)) + b"ibuiltins\neval\n."),
    _written("5v", "OBJ of a thread pool", lambda m: program(MARK, SYSTEM, _shell(m), OBJ, POP, NONE)),
    _written("6v", "DUP of the function", lambda m: program(SYSTEM, DUP, MEMOIZE, POP, _shell(m), TUPLE1, REDUCE)),
    _written("7v", "names with escapes", lambda m: program(b"V\\u0070osix\n", b"Vsyst\\u0065m\n", b"\x93", _shell(m), TUPLE1, REDUCE)),
    _written("7v", "names as short strings of Python 2", lambda m: program(b"U\x05posix", b"S'\\x73ystem'\n", b"\x93", _shell(m), TUPLE1, REDUCE)),
    _written("8v", "cut after the call", lambda m: program(call(SYSTEM, _shell(m)))[:-1] + b"(((("),
    _written("9v", "an empty stack after the payload", lambda m: program(call(SYSTEM, _shell(m)), POP, POP, POP)),
    _written("10v", "third of three pickles", lambda m: b"N.I1\n." + program(call(SYSTEM, _shell(m))), runs="stacked"),
    _written("11v", "pickle in pickle in pickle", lambda m: program(call(name("pickle", "loads"), blob(program(call(name("_pickle", "loads"), blob(program(call(SYSTEM, _shell(m)))))))))),
    _written("19v", "a place of the memo that is empty", lambda m: program(call(SYSTEM, _shell(m)), b"g77\n")),
    _written("21v", "builtins of Python 2", lambda m: b"c__builtin__\neval\n(" + text(source(m)) + b"tR."),
    _written("23v", "BUILD on a class", lambda m: program(name("collections", "UserDict"), NONE, EMPTY_DICT, text("__getattr__"), SYSTEM, SETITEM, TUPLE2, BUILD, POP, call(SYSTEM, _shell(m)))),
    _written("24v", "NEWOBJ_EX of a file", lambda m: program(name("_io", "FileIO"), EMPTY_TUPLE, EMPTY_DICT, b"\x92"), runs=""),
    _written("29v", "BINPERSID", lambda m: program(text(m), b"Q"), runs=""),
    _written("1v", "an item of a list of modules", lambda m: program(name("sys", "path"), text(m), APPEND, POP, call(SYSTEM, _shell(m)))),
    _written("1v", "an item of a dictionary of modules", lambda m: program(name("sys", "modules"), text("json"), name("builtins", "abs"), SETITEM, POP, call(SYSTEM, _shell(m)))),
    _written("1v", "a default that is a function", lambda m: program(call(name("collections", "defaultdict"), name("os", "getcwd")), POP, call(SYSTEM, _shell(m)))),
    _written("1v", "an argument that is a pair", lambda m: program(call(name("operator", "call"), SYSTEM, _shell(m)), number(1), TUPLE2)),
    _written("57v", "a file that is opened and dropped", lambda m: program(_open(m), POP, NONE)),
)  # fmt: skip

HOSTILE = (*PROGRAMS, *FILES, *RESOLVERS, *OPCODES)
