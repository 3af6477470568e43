"""61 to 76: archives that say two things, pickles where none is expected, and files that are two things at once."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np

from corpus import Case, data
from corpus.assemble import call, name, program, text, touch
from corpus.opcodes import plain


def torch_zip(
    pickled: bytes, *, storages: int = 1, extra: dict[str, bytes] | None = None, compress: bool = False
) -> bytes:
    """A file as torch.save writes it, with this pickle in it."""
    stream = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("archive/data.pkl", pickled)
        archive.writestr("archive/byteorder", "little")
        for index in range(storages):
            archive.writestr(f"archive/data/{index}", struct.pack("<2f", 1, 2))
        archive.writestr("archive/version", "3\n")
        for member, content in (extra or {}).items():
            archive.writestr(member, content)
    return stream.getvalue()


HONEST = program(b"}")


def _flagged(marker: str) -> bytes:
    """The encrypted bit is set in the directory: some scanners give up on the member, PyTorch reads it."""
    content = bytearray(torch_zip(plain(marker, 2)))
    at = content.index(b"PK\x01\x02")
    content[at + 8] |= 1
    return bytes(content)


def _two_names(marker: str) -> bytes:
    """The directory calls the pickle a text file, its own header calls it data.pkl."""
    content = torch_zip(plain(marker, 2), extra={"archive/readme.txt": b""})
    at = content.index(b"PK\x01\x02")
    return content[:at] + content[at:].replace(b"archive/data.pkl", b"archive/data.txt", 1)


def _bad_crc(marker: str) -> bytes:
    content = bytearray(torch_zip(plain(marker, 2)))
    for signature, offset in ((b"PK\x01\x02", 16), (b"PK\x03\x04", 14)):
        at = content.index(signature)
        content[at + offset] ^= 0xFF
    return bytes(content)


def _twice(marker: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", HONEST)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/dat4.pkl", plain(marker, 2))
    return stream.getvalue().replace(b"archive/dat4.pkl", b"archive/data.pkl")


def _zip(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return stream.getvalue()


def _two_ends(marker: str) -> bytes:
    """A second end of central directory, so that two readers take two different archives."""
    return _zip({"model.txt": b"harmless"}) + torch_zip(plain(marker, 2))


def _seven_zip(marker: str) -> bytes:
    return b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(24) + plain(marker)


def _tar(marker: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for member, content in {"pickle": plain(marker, 2), "storages": b"", "tensors": b""}.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _after_array(codec: str):
    """A joblib file: an honest array, its raw bytes, then the payload in the same stream."""

    def make(folder, marker):
        import joblib

        class Payload:
            def __reduce__(self):
                import os

                return os.system, (touch(str(marker)),)

        path = folder / f"model.{codec or 'joblib'}"
        joblib.dump([np.arange(64.0), Payload(), "end"], path, compress=(codec, 3) if codec else 0)
        return path

    return make


def _object_array(kind: str):
    def make(folder, marker):
        class Payload:
            def __reduce__(self):
                import os

                return os.system, (touch(str(marker)),)

        path = folder / f"weights.{kind}"
        values = np.array([Payload(), 1], dtype=object)
        np.savez(path, honest=np.arange(3), values=values) if kind == "npz" else np.save(path, values)
        return path

    return make


def _safetensors(marker: str) -> bytes:
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    return struct.pack("<Q", len(header)) + header + bytes(8) + plain(marker)


def _gguf(marker: str) -> bytes:
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + struct.pack("<Q", 1) + b"w" + struct.pack("<IQIQ", 1, 8, 0, 0)
    padded = header + bytes(-len(header) % 32)
    return padded + bytes(32) + plain(marker)


def _magic_from_eval(marker: str) -> bytes:
    """The legacy file of PyTorch, whose magic number comes out of a call."""
    expression = text(f"[0x1950a86a20f9469cfc6c, open({marker!r}, 'w').close()][0]")
    magic = program(call(name("builtins", "eval"), expression), protocol=2)
    rest = program(b"M\xe9\x03", protocol=2) + program(b"}", protocol=2) * 2 + program(b"]", protocol=2)
    return magic + rest


CODECS = ("zlib", "gzip", "bz2", "lzma", "xz", "lz4")
HOSTILE = (
    Case("61", "encrypted flag", data(_flagged, "model.pt"), ""),
    Case("62", "two names of one member", data(_two_names, "model.pt"), ""),
    Case("63", "bad CRC", data(_bad_crc, "model.pt"), ""),
    Case("64", "pickle in a text file", data(lambda m: _zip({"notes.txt": plain(m)}), "model.zip"), ""),
    Case("64b", "pickle called txt", data(plain, "notes.txt"), "pickle"),
    Case("65", "member twice", data(_twice, "model.pt"), ""),
    Case("66", "pickle before a zip", data(lambda m: plain(m) + torch_zip(HONEST), "model.pt"), "pickle"),
    Case("67", "zip in a zip", data(lambda m: _zip({"a.zip": _zip({"b.zip": _zip({"data.pkl": plain(m)})})}), "m.zip"), ""),
    Case("68", "second end of directory", data(_two_ends, "model.pt"), ""),
    Case("69", "7z as pt", data(_seven_zip, "model.pt"), "", limit=True),
    Case("70", "tar as pt", data(_tar, "model.pt"), ""),
    Case("71", "gzip", data(lambda m: gzip.compress(plain(m), mtime=0), "model.pkl.gz"), "joblib"),
    Case("72", "after a raw array", _after_array(""), "joblib"),
    *(Case(f"72{chr(98 + index)}", f"after a raw array {codec}", _after_array(codec), "joblib") for index, codec in enumerate(CODECS)),
    Case("73", "object array npy", _object_array("npy"), "numpy"),
    Case("73b", "object array npz", _object_array("npz"), "numpy"),
    *(Case(f"74{letter}", f"pickle called {file}", data(plain, file), "pickle") for letter, file in zip("abcd", ("model.safetensors", "model.onnx", "model.h5", "model"), strict=True)),
    Case("75", "magic number from eval", data(_magic_from_eval, "model.pt"), "torch"),
    Case("75b", "torch zip", data(lambda m: torch_zip(plain(m, 2)), "model.pt"), "torch"),
    Case("76", "pickle after safetensors", data(_safetensors, "model.safetensors"), ""),
    Case("76b", "pickle after GGUF", data(_gguf, "model.gguf"), ""),
)  # fmt: skip
