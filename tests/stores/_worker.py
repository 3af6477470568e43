"""One of many processes on one store: ``python _worker.py ROLE ROOT NUMBER``. It stops when ROOT.stop exists."""

import sys
from pathlib import Path

from vitrify.core.errors import ReferenceNotFoundError
from vitrify.stores import OciLayout, collect, export, fsck, import_
from vitrify.testing.stores import contents, save

SHARED = ("shared:1", "shared:2")


def files(stamp):
    return {"weights": stamp * 20_000, "config.json": stamp, "same in all": b"{}"}


def write(store, number):
    """Save over the shared names, and each save under a name of its own too; those must all be there at the end."""
    for count in range(12):
        stamp = f"{number}-{count};".encode()
        save(store, files(stamp), SHARED[count % 2])
        save(store, files(stamp), f"mine-{number}:{count}")
        if count % 3 == 0:
            store.names.unset(f"mine-{number}:{count}")


def read(store, number):
    """Read whatever a name leads to; it must be whole."""
    target = store.root.parent / f"read-{number}"
    while not stopped(store):
        for name in (*SHARED, *store.names.all()):
            with store.kept():
                try:
                    digest = store.names.get(name).content
                except ReferenceNotFoundError:
                    continue
                found = contents(store, digest)
                assert found == files(found["config.json"]), name
        with store.kept():
            if names := store.names.all():
                export(store, names.popitem()[1].content, target)
                import_(OciLayout(store.root.parent / f"copy-{number}"), target)


def gather(store, _):
    """Collect garbage all the time."""
    while not stopped(store):
        collect(store)
        assert fsck(store).passed, fsck(store)


def stopped(store):
    return Path(f"{store.root}.stop").exists()


if __name__ == "__main__":
    role, root, number = sys.argv[1:]
    {"write": write, "read": read, "gather": gather}[role](OciLayout(Path(root)), int(number))
