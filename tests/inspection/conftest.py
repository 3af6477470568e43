"""Formats of our own, so that the engine is tested whatever the catalog holds."""

from __future__ import annotations

import pytest

from vitrify.core.catalog import Catalog
from vitrify.core.report import Finding
from vitrify.core.row import Row
from vitrify.reading.files import HeldFiles, only
from vitrify.reading.malformed import exceed, refuse


class Prefix:
    """A format whose files begin with a word; subclasses say what is in them."""

    word = b""

    def detect(self, files):
        name = only(files)
        return name is not None and bytes(files.map(name)).startswith(self.word)

    def describe(self, files, entry):
        return {}

    def hazards(self, files, entry):
        return ()


class Safe(Prefix):
    word = b"safe"


class Evil(Prefix):
    word = b"evil"

    def hazards(self, files, entry):
        name = entry["file"]
        yield Finding(place=f"{name}:offset 4", message="would run it", rule="untrusted-global", subject="evil.run")


class Broken(Prefix):
    word = b"broken"

    def hazards(self, files, entry):
        raise ZeroDivisionError("a plugin's own mistake")


class BrokenLook(Prefix):
    def detect(self, files):
        raise KeyError("a plugin's own mistake")


class Cut(Prefix):
    word = b"cut"

    def hazards(self, files, entry):
        refuse(entry["file"], "it is cut off")


class Huge(Prefix):
    word = b"huge"

    def hazards(self, files, entry):
        exceed(entry["file"], "9 levels deep")


class Many(Prefix):
    word = b"many"

    def hazards(self, files, entry):
        return (Finding(place=f"offset {number}", message="again") for number in range(10**9))


class Box(Prefix):
    """``box[name=content]``: holds one file."""

    word = b"box["

    def parts(self, files, entry):
        name, _, content = bytes(files.map(entry["file"]))[4:-1].partition(b"=")
        yield name.decode(), HeldFiles({name.decode(): memoryview(content)})


class Fan(Prefix):
    """Holds itself, for ever."""

    word = b"fan"

    def parts(self, files, entry):
        while True:
            yield "self", files


class Pair:
    """A folder with ``index`` and whatever it lists, a name a line; it does not open other files."""

    def detect(self, files):
        return only(files) is None and "index" in files.names()

    def describe(self, files, entry):
        return {}

    def hazards(self, files, entry):
        for name in files.read("index").decode().split():
            if files.read(name).startswith(b"bad"):
                yield Finding(place=name, message="is bad", rule="bad")


class Handing(Pair):
    """A folder that opens its files when it is asked for its parts."""

    def hazards(self, files, entry):
        return ()

    def parts(self, files, entry):
        for name in files.names():
            files.read(name)
        yield from ()


class Folder(Pair):
    """Any folder."""

    def detect(self, files):
        return only(files) is None


class Anything(Prefix):
    pass


class Packed(Prefix):
    word = b"PK"


class Zip(Prefix):
    def detect(self, files):
        name = only(files)
        return name is not None and b"PK\5\6" in bytes(files.map(name))


FORMATS = {
    "safe": Safe,
    "evil": Evil,
    "pickle": Evil,
    "broken": Broken,
    "broken-look": BrokenLook,
    "cut": Cut,
    "huge": Huge,
    "many": Many,
    "box": Box,
    "fan": Fan,
    "pair": Pair,
    "folder": Folder,
    "handing": Handing,
    "anything": Anything,
    "packed": Packed,
    "zip": Zip,
}


@pytest.fixture
def formats(monkeypatch):
    """Return a function that makes these formats the only ones there are."""

    def use(*names, **options):
        rows = []
        for name in names:
            cls = FORMATS[name]
            rows.append(Row(kind="format", name=name, target=f"{name}:{cls.__name__}", **options.get(name, {})))
        made = Catalog(rows)
        monkeypatch.setattr("vitrify.inspection.identify.catalog", lambda: made)
        monkeypatch.setattr("vitrify.inspection.scan.catalog", lambda: made)
        monkeypatch.setattr("vitrify.core.row.Row.look", lambda row: FORMATS[row.name]())

    return use
