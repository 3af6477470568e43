"""The built-in formats that are not of one framework: pickles, containers, text, and what lies beside models."""

from __future__ import annotations

from functools import partial

from vitrify.core.row import Row

SPACE = tuple((0, mark) for mark in (b" ", b"\t", b"\r", b"\n", b"\xef\xbb\xbf"))
JSON = (*SPACE, (0, b"{"))
UNICODE = ((0, b"\xff\xfe"), (0, b"\xfe\xff"), (0, b"\0"))
"""JSON in UTF-16 or UTF-32, which Python reads as well."""

_row = partial(Row, kind="format")

GENERAL: tuple[Row, ...] = (
    _row(
        name="native-library",
        target="vitrify.formats.native_library:NativeLibrary",
        suffixes=(".so", ".dylib", ".dll"),
        magic=(
            (0, b"\x7fELF"),
            (0, b"MZ"),
            (0, b"\xca\xfe\xba\xbe"),
            (0, b"\xfe\xed\xfa"),
            (0, b"\xce\xfa\xed\xfe"),
            (0, b"\xcf\xfa\xed\xfe"),
        ),
        summary="ELF, Mach-O or PE library or program; code",
        specification="https://refspecs.linuxfoundation.org/elf/elf.pdf",
    ),
    _row(
        name="python",
        target="vitrify.formats.python:Python",
        magic=JSON,
        types=("builtins.function", "builtins.type"),
        summary="a named Python function or class, its source bundled; code",
        specification="https://docs.python.org/3/glossary.html#term-qualified-name",
    ),
    _row(
        name="pickle",
        target="vitrify.formats.pickle:Pickle",
        anywhere=True,
        suffixes=(".pkl", ".pickle"),
        transient=True,
        summary="pickle, read by a machine of our own that runs nothing; written only when asked for",
        specification="https://docs.python.org/3/library/pickletools.html",
    ),
    _row(
        name="zip",
        target="vitrify.formats.zip:Zip",
        suffixes=(".zip",),
        generic=True,
        summary="ZIP file, looked at member by member",
        specification="https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT",
    ),
    _row(
        name="tar",
        target="vitrify.formats.tar:Tar",
        suffixes=(".tar",),
        generic=True,
        summary="TAR file, looked at member by member",
        specification="https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html",
    ),
    _row(
        name="seven-zip",
        target="vitrify.formats.seven_zip:SevenZip",
        magic=((0, b"7z"),),
        suffixes=(".7z",),
        generic=True,
        summary="7z file: recognised, not read",
        specification="https://www.7-zip.org/recover.html",
    ),
    _row(
        name="python-source",
        target="vitrify.formats.python_source:PythonSource",
        suffixes=(".py", ".pyc"),
        summary="Python source and bytecode; code",
        specification="https://docs.python.org/3/reference/grammar.html",
    ),
    _row(
        name="script",
        target="vitrify.formats.script:Script",
        magic=((0, b"#!"), (0, b"@"), (0, b" "), (0, b"\t")),
        suffixes=(".sh", ".bat"),
        summary="scripts that name the program which runs them; code",
        specification="https://man7.org/linux/man-pages/man2/execve.2.html",
    ),
    _row(
        name="text",
        target="vitrify.formats.text:Text",
        suffixes=(".txt", ".md", ".json", ".csv", ".yaml"),
        generic=True,
        text=True,
        summary="plain text: JSON, CSV, YAML, Markdown",
        specification="https://www.unicode.org/versions/latest/",
    ),
    _row(
        name="media",
        target="vitrify.formats.media:Media",
        suffixes=(".png", ".jpg", ".gif", ".webp", ".wav"),
        generic=True,
        magic=((0, b"\x89PNG"), (0, b"\xff\xd8\xff"), (0, b"GIF8"), (0, b"RIFF")),
        summary="pictures and sound beside a model",
        specification="https://www.w3.org/TR/png-3/",
    ),
    _row(
        name="hdf5",
        target="vitrify.formats.hdf5:Hdf5",
        suffixes=(".hdf5", ".h5"),
        generic=True,
        summary="HDF5 file: a tree of named arrays",
        specification="https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html",
    ),
    _row(
        name="joblib",
        target="vitrify.formats.joblib:Joblib",
        suffixes=(".joblib",),
        transient=True,
        summary="joblib's pickle with arrays beside its opcodes, plain or compressed; code",
        specification="https://joblib.readthedocs.io/en/stable/persistence.html",
    ),
    _row(
        name="numpy",
        target="vitrify.formats.numpy_file:NumpyFile",
        suffixes=(".npz", ".npy"),
        magic=((0, b"\x93NUMPY"), (0, b"PK")),
        summary="NumPy arrays, one or several by name",
        specification="https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html",
    ),
    _row(
        name="compressed",
        target="vitrify.formats.compressed:Compressed",
        suffixes=(".gz", ".bz2", ".xz", ".zst", ".lz4"),
        generic=True,
        summary="gzip, bzip2, xz, LZ4 or Zstandard around another file",
        specification="https://www.rfc-editor.org/rfc/rfc1952",
    ),
    _row(
        name="hugging-face-json",
        target="vitrify.formats.hugging_face_json:HuggingFaceJson",
        magic=(*JSON, *UNICODE, (0, b"[")),
        suffixes=("config.json", "modules.json"),
        summary="Hugging Face configuration on its own that names code, a template or a path",
        specification="https://huggingface.co/docs/transformers/main/en/custom_models",
    ),
    _row(
        name="weights-index",
        target="vitrify.formats.weights_index:WeightsIndex",
        magic=(*JSON, *UNICODE),
        suffixes=(".index.json", ".weights.json"),
        summary="index of weights in several files",
        specification="https://huggingface.co/docs/transformers/main/en/big_models#sharded-checkpoints",
    ),
    _row(
        name="jinja",
        target="vitrify.formats.jinja:Jinja",
        suffixes=(".jinja",),
        text=True,
        summary="Jinja template, judged and never rendered",
        specification="https://jinja.palletsprojects.com/en/stable/templates/",
    ),
)
