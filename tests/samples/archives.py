"""Archives of which nothing more is known, and skops files, which are archives."""

from __future__ import annotations

import io
import struct
import tarfile
import zipfile
import zlib

from samples.torch_files import file, tarred, zipped

MEMBERS = {"notes.txt": b"what this is\n" * 20, "folder/table.csv": b"a,b\n1,2\n", "empty.txt": b""}


def streamed():
    """Return a ZIP file as one writes it who cannot go back: sizes behind the data."""

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def tell(self):
            raise OSError

        def seek(self, *_):
            raise OSError

    stream = Pipe()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in MEMBERS.items():
            archive.writestr(name, data)
    return stream.getvalue()


def wide():
    """Return a ZIP file with the numbers of zip64 where they are not needed, a folder, and a comment."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.mkdir("folder")
        with archive.open("notes.txt", "w", force_zip64=True) as member:
            member.write(MEMBERS["notes.txt"])
        archive.comment = b"made by hand, 2024"
    return stream.getvalue()


def linked():
    """Return a TAR file with long names, a link to one of its files, and a folder."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        long = tarfile.TarInfo(f"{'d' * 90}/{'n' * 120}.txt")
        long.size = 5
        archive.addfile(long, io.BytesIO(b"12345"))
        for kind, name, target in (
            (tarfile.DIRTYPE, "folder", ""),
            (tarfile.SYMTYPE, "folder/link.txt", f"../{long.name}"),
            (tarfile.LNKTYPE, "second.txt", long.name),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
    return stream.getvalue()


def seven_zip():
    """Return a 7z file that holds nothing: its start header, which says so."""
    start = struct.pack("<QQI", 0, 0, 0)
    return b"7z\xbc\xaf\x27\x1c\x00\x04" + struct.pack("<I", zlib.crc32(start)) + start


def skops(compression=zipfile.ZIP_STORED):
    """Return what skops itself writes."""
    import numpy as np
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(0).normal(size=(20, 3))
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, rows[:, 0] > 0)
    return skops.io.dumps(model, compression=compression)


SAMPLES = {
    "zip/stored": file("a.zip", lambda: zipped(MEMBERS)),
    "zip/deflated": file("a.zip", lambda: zipped(MEMBERS, zipfile.ZIP_DEFLATED)),
    "zip/streamed": file("a.zip", streamed),
    "zip/wide": file("a.zip", wide),
    "tar/ustar": file("a.tar", lambda: tarred(MEMBERS)),
    "tar/linked": file("a.tar", linked),
    "seven-zip/empty!": file("a.7z", seven_zip),
    "skops/stored": file("model.skops", skops),
    "skops/deflated": file("model.skops", lambda: skops(zipfile.ZIP_DEFLATED)),
}
