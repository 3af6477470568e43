"""What using a name would do, in a few words a person understands. Nothing is decided by this: the allow-list does."""

from __future__ import annotations

_SHELL = "runs a shell command or starts a program"
_CODE = "runs code from text or bytes"
_NETWORK = "opens a network connection"
_FILES = "reads or writes files"
_NATIVE = "loads native code, or reaches into memory"
_REACH = "reaches another object by its name"
_UNPICKLE = "loads another pickle, which nothing has looked at"

_NAMES = {
    **dict.fromkeys(
        ("system", "popen", "Popen", "run", "call", "check_call", "check_output", "spawn", "pipepager"), _SHELL
    ),
    **dict.fromkeys(
        ("getoutput", "getstatusoutput", "fork_exec", "posix_spawn", "spawnv_passfds", "execv", "execve"), _SHELL
    ),
    **dict.fromkeys(
        ("eval", "exec", "execfile", "compile", "runsource", "runcode", "runctx", "run_path", "run_module"), _CODE
    ),
    **dict.fromkeys(("runstring", "timeit", "FunctionType", "CodeType", "run_code", "exec_module"), _CODE),
    **dict.fromkeys(("getattr", "attrgetter", "methodcaller", "__import__", "import_module", "resolve_name"), _REACH),
    **dict.fromkeys(
        ("locate", "_resolve", "__getattribute__", "reduce", "starmap", "apply", "vars", "globals"), _REACH
    ),
    **dict.fromkeys(
        ("open", "FileIO", "FileHandler", "savetxt", "memmap", "tofile", "unlink", "remove", "rmtree"), _FILES
    ),
    **dict.fromkeys(
        ("touch", "mkdir", "rename", "ZipFile", "TarFile", "GzipFile", "dump", "save", "genfromtxt"), _FILES
    ),
    **dict.fromkeys(("urlopen", "urlretrieve", "create_connection", "socket", "IMAP4_stream"), _NETWORK),
    **dict.fromkeys(("CDLL", "WinDLL", "PyDLL", "LoadLibrary", "load_library", "dlopen"), _NATIVE),
    **dict.fromkeys(("loads", "Unpickler", "_load_from_bytes", "read_pickle"), _UNPICKLE),
}
_MODULES = {
    **dict.fromkeys(
        ("os", "posix", "nt", "subprocess", "pty", "commands", "popen2", "multiprocessing", "_posixsubprocess"), _SHELL
    ),
    **dict.fromkeys(
        ("runpy", "code", "codeop", "timeit", "bdb", "pdb", "cProfile", "profile", "trace", "marshal"), _CODE
    ),
    **dict.fromkeys(("distutils", "setuptools", "pip", "idlelib", "doctest", "site", "venv", "ensurepip"), _CODE),
    **dict.fromkeys(
        ("socket", "http", "urllib", "urllib2", "ftplib", "smtplib", "imaplib", "poplib", "ssl", "requests"), _NETWORK
    ),
    **dict.fromkeys(
        ("shutil", "io", "_io", "pathlib", "shelve", "dbm", "sqlite3", "zipfile", "tarfile", "gzip"), _FILES
    ),
    **dict.fromkeys(("bz2", "lzma", "tempfile", "logging", "fileinput", "glob", "mmap"), _FILES),
    **dict.fromkeys(("ctypes", "_ctypes", "cffi", "sys", "gc"), _NATIVE),
    **dict.fromkeys(("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib"), _UNPICKLE),
    **dict.fromkeys(
        ("importlib", "pkgutil", "pydoc", "inspect", "operator", "types", "functools", "itertools"), _REACH
    ),
}


def of(dotted: str) -> str:
    """Return what using a name would do, to follow "this" or "which"."""
    does = _NAMES.get(dotted.rpartition(".")[2]) or _MODULES.get(dotted.partition(".")[0])
    shown = dotted[:200]
    return f"{does} ({shown})" if does else f"would use {shown}, which nobody has trusted"
