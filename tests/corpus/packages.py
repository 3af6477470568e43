"""113 to 118: archives whose members leave their directory when someone unpacks them."""

from __future__ import annotations

import io
import tarfile
import zipfile

from corpus import Case, data


def _tar(*members: tuple[str, bytes, dict]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content, about in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in about.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[str, bytes, dict]:
    return name, b"", {"type": kind, "linkname": target}


def _long() -> bytes:
    """Links whose real path grows past PATH_MAX, after which realpath of some versions stops looking."""
    step, members, at = "d" * 247, [], ""
    for letter in "abcdefghijklmnop":
        members += [(f"{at}{step}", b"", {"type": tarfile.DIRTYPE}), _link(f"{at}{letter}", step)]
        at += f"{letter}/"
    return _tar(*members, _link(f"{at}z", "../" * 16 + "../etc"), (f"{at}z/x", b"x", {}))


def _zip(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo("x")
            info.filename = name
            archive.writestr(info, b"content")
    return stream.getvalue()


NAMES = {"a": "/etc/x", "b": "C:\\x", "c": "..\\x", "d": "../../x", "e": "a:b"}
HOSTILE = (
    Case("113", "symlink, then write through it", data(_tar(_link("d", "/etc"), ("d/x", b"x", {})), "m.tar")),
    Case("114", "hard link out", data(_tar(_link("x", "/etc/passwd", tarfile.LNKTYPE)), "m.tar")),
    Case("115", "links past PATH_MAX", data(_long(), "m.tar")),
    Case("116", "device", data(_tar(("null", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})), "m.tar")),
    Case("116b", "FIFO", data(_tar(("pipe", b"", {"type": tarfile.FIFOTYPE})), "m.tar")),
    Case("117", "names that differ by case", data(_zip("model/A.txt", "model/a.txt"), "m.zip")),
    Case("117b", "names that differ by Unicode form", data(_zip("caf\u00e9", "cafe\u0301"), "m.zip")),
    *(Case(f"118{key}", f"name {name}", data(_zip(name), "m.zip")) for key, name in NAMES.items()),
    *(Case(f"118{key}t", f"tar name {name}", data(_tar((name, b"x", {})), "m.tar")) for key, name in NAMES.items()),
)  # fmt: skip
