"""44 to 60: functions that run code, start programs or write files although their names say nothing of it."""

from __future__ import annotations

from corpus import Case, data
from corpus.assemble import (
    EMPTY_DICT,
    EMPTY_LIST,
    NEWTRUE,
    NONE,
    blob,
    call,
    name,
    number,
    program,
    source,
    text,
    touch,
)  # fmt: skip


def _called(module: str, function: str, *arguments):
    """Return a maker of a pickle that calls a function; arguments may be made from the marker."""
    return data(
        lambda m: program(call(name(module, function), *(one(m) if callable(one) else one for one in arguments)))
    )


def _source(marker: str) -> bytes:
    return text(source(marker))


def _shell(marker: str) -> bytes:
    return text(touch(marker))


def _path(marker: str) -> bytes:
    return text(marker)


def _list(*parts: bytes) -> bytes:
    return b"](" + b"".join(parts) + b"e"


def _method(module: str, cls: str, method: str, *arguments):
    """Call a method of a new instance through getattr."""

    def make(marker: str) -> bytes:
        given = [one(marker) if callable(one) else one for one in arguments]
        bound = call(name("builtins", "getattr"), call(name(module, cls)), text(method))
        return program(call(bound, *given))

    return data(make)


def _runpy(folder, marker):
    script = folder / "model_card.txt"
    script.write_text(source(str(marker)))
    path = folder / "model.pkl"
    path.write_bytes(program(call(name("runpy", "run_path"), text(str(script)))))
    return path


def _second_file(loader: tuple[str, str], file: str, write):
    """A pickle that only loads another file, which holds the payload."""

    def make(folder, marker):
        write(folder / file, str(marker))
        path = folder / "model.pkl"
        extra = (NONE, NEWTRUE) if loader[0] == "numpy" else ()
        path.write_bytes(program(call(name(*loader), text(str(folder / file)), *extra)))
        return path

    return make


def _evil_joblib(path, marker):
    path.write_bytes(program(call(name("os", "system"), text(touch(marker)))))


def _evil_npy(path, marker):
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    payload = program(call(name("os", "system"), text(touch(marker))))
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + payload)


def _array(marker: str) -> bytes:
    return call(name("numpy", "zeros"), number(2))


WRITERS = {
    "57": ("file handler", _called("logging", "FileHandler", _path)),
    "57b": ("file io", _called("_io", "FileIO", _path, text("w"))),
    "57c": ("path touch", _called("pathlib", "Path.touch", lambda m: call(name("pathlib", "PosixPath"), text(m)))),
    "57d": ("shelve", _called("shelve", "open", _path)),
    "57e": ("zip file", _called("zipfile", "ZipFile", _path, text("w"))),
    "57f": ("tar file", _called("tarfile", "TarFile", _path, text("w"))),
    "57g": ("gzip", _called("gzip", "GzipFile", _path, text("w"))),
    "57h": ("sqlite", _called("sqlite3", "connect", _path)),
    "58": ("savetxt", _called("numpy", "savetxt", _path, _list(number(1)))),
    "58b": ("memmap", _called("numpy", "memmap", _path, text("u1"), text("w+"), number(0), number(4))),
    "58c": ("ndarray tofile", _called("numpy", "ndarray.tofile", _array, _path)),
    "58d": ("joblib dump", _called("joblib", "dump", number(1), _path)),
}

HOSTILE = (
    Case("44", "runpy", _runpy, "pickle"),
    Case("45", "timeit", _called("timeit", "timeit", _source), "pickle"),
    Case("46", "cProfile", _called("cProfile", "run", _source), "pickle"),
    Case("47", "bdb", _method("bdb", "Bdb", "run", _source), "pickle"),
    Case("48", "trace", _method("trace", "Trace", "run", _source), "pickle"),
    Case("49", "code runsource", _method("code", "InteractiveInterpreter", "runsource", _source), "pickle"),
    Case("50", "pipepager", _called("pydoc", "pipepager", text(""), _shell), "pickle"),
    Case("51", "uuid", _called("uuid", "_get_command_stdout", text("touch"), _path), "pickle"),
    Case("52", "imaplib", _called("imaplib", "IMAP4_stream", _shell), "pickle"),
    Case("53", "spawnv_passfds", _called("multiprocessing.util", "spawnv_passfds", blob(b"/bin/touch"), lambda m: _list(text("touch"), text(m)), EMPTY_LIST), "pickle"),
    Case("54", "f2py", _called("numpy.f2py.crackfortran", "myeval", lambda m: text(f"open({m!r}, 'w')"), EMPTY_DICT), "pickle"),
    Case("55", "runstring", _called("numpy.testing._private.utils", "runstring", _source, EMPTY_DICT), "pickle"),
    Case("56", "CDLL", _called("ctypes", "CDLL", text("libm.so.6")), ""),
    *(Case(key, words, make, "pickle" if key != "56" else "") for key, (words, make) in WRITERS.items()),
    Case("59", "loads a second file with joblib", _second_file(("joblib", "load"), "weights.bin", _evil_joblib), "pickle"),
    Case("59b", "loads a second file with numpy", _second_file(("numpy", "load"), "weights.npy", _evil_npy), "pickle"),
    Case("60", "import alone", data(lambda m: program(name("antigravity", "fly"))), ""),
)  # fmt: skip
