"""Registries for tests: every pair of a database and a place for content, and small artifacts to put into them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from vitrify.core.attestation import PARITY, STATEMENT_TYPE
from vitrify.core.digest import Digest
from vitrify.core.manifest import MANIFEST_TYPE
from vitrify.registry import requests as r
from vitrify.registry.actor import Actor, everyone
from vitrify.registry.blobs import open_blobs
from vitrify.registry.database import Database
from vitrify.registry.database.guards import GUARDS
from vitrify.registry.database.schema import metadata
from vitrify.registry.local import LocalBackend
from vitrify.registry.registry import Registry

KINDS = ("sqlite+disk", "postgresql+disk", "sqlite+s3", "postgresql+s3")
ADMIN = everyone("ann")


class Registries:
    """Makes empty registries, each on a database of its own; what it opened is closed when the test ends."""

    def __init__(self, request, folder):
        self.request = request
        self.folder = folder
        self.opened = []
        self.lent = []

    def places(self, kind):
        """Return the URL of a new, migrated database and a new place for content."""
        database, content = kind.split("+")
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        place = str(folder / "content") if content == "disk" else self.request.getfixturevalue("s3").url()
        if database == "postgresql":
            server = self.request.getfixturevalue("postgresql")
            url = _emptied(_FREE.setdefault(server.port, [])) or _copy(server)
            self.lent.append((server.port, url))
            return url, place
        path = folder / "registry.db"
        shutil.copy(_template(self.request), path)
        return str(path), place

    def open(self, kind="sqlite+disk", **options):
        """Return the backend of a new registry."""
        return self.reopen(*self.places(kind), **options)

    def reopen(self, database, content, actor=ADMIN, policy=None):
        """Return another backend of the same registry, as another process would have it."""
        backend = LocalBackend(Database(database), open_blobs(content), actor, policy)
        self.opened.append(backend)
        return backend

    def close(self):
        for backend in self.opened:
            backend.close()
        self.opened.clear()
        for port, url in self.lent:
            _FREE[port].append(url)
        self.lent.clear()


_TEMPLATES = {}
_FREE = {}
_GUARDS = "SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal"


def _emptied(free):
    """Return a database that another test is done with, emptied: making and removing one takes longer."""
    import psycopg

    while free:
        url = free.pop()
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            if connection.execute(_GUARDS).fetchone() != (len(GUARDS["postgresql"]) - 2,):
                continue  # a test broke it
            connection.execute("SET session_replication_role = replica")  # no trigger fires
            names = ", ".join(f'"{name}"' for name in metadata.tables if name != "head")
            connection.execute(f"TRUNCATE {names} RESTART IDENTITY CASCADE")
            connection.execute("UPDATE head SET seq = 0, hash = repeat('0', 64), time = 0")
        return url
    return None


def _template(request):
    """Return a migrated SQLite file, made once a process: migrating takes longer than most tests."""
    if "sqlite" not in _TEMPLATES:
        folder = request.getfixturevalue("tmp_path_factory").mktemp("template")
        database = Database(folder / "registry.db")
        database.close()
        _TEMPLATES["sqlite"] = folder / "registry.db"
    return _TEMPLATES["sqlite"]


def _copy(server):
    """Return the URL of a copy of a migrated database."""
    import psycopg

    if server.port not in _TEMPLATES:
        _TEMPLATES[server.port] = url = server.database()
        Database(url).close()
    name = f"{_TEMPLATES[server.port].rpartition('/')[2]}_{len(_TEMPLATES)}"
    _TEMPLATES[name] = name
    with psycopg.connect(server.url(driver="postgresql"), autocommit=True) as connection:
        template = _TEMPLATES[server.port].rpartition("/")[2]
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
    return server.url(name)


@pytest.fixture
def registries(request, tmp_path_factory):
    made = Registries(request, tmp_path_factory.mktemp("registries"))
    yield made
    made.close()


@pytest.fixture(params=KINDS)
def backend(request, registries):
    """An empty registry on every pair of database and content, for somebody who may do everything."""
    return registries.open(request.param)


@pytest.fixture
def registry(backend):
    return Registry(backend)


def acting(backend, who, *roles, models=("*",)):
    """Return the same registry for somebody else."""
    return Registry(backend.acting(Actor(who, roles or ("writer",), models)))


def put(backend, data):
    """Upload bytes and return their digest."""
    digest = Digest.of(data)
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(data)
        stream.flush()
        backend.upload(digest, Path(stream.name))
    return str(digest)


def blobs_of(seed):
    """Return the blobs of a small artifact, the manifest last."""
    config, layer = json.dumps({"seed": seed}).encode(), f"weights of {seed}".encode()

    def descriptor(data, kind):
        return {"mediaType": kind, "digest": str(Digest.of(data)), "size": len(data)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": "application/vnd.cncf.model.manifest.v1+json",
        "config": descriptor(config, "application/vnd.cncf.model.config.v1+json"),
        "layers": [descriptor(layer, "application/vnd.cncf.model.weight.v1.raw")],
    }
    return config, layer, json.dumps(manifest).encode()


def artifact(backend, seed="model"):
    """Upload a small artifact and return the digest of its manifest."""
    return [put(backend, data) for data in blobs_of(seed)][-1]


def statement(subject, predicate_type=PARITY, **predicate):
    """Return an in-toto statement about a digest, as JSON."""
    about = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "model", "digest": {"sha256": subject.removeprefix("sha256:")}}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return json.dumps(about)


def prove(backend, variant, source):
    """Attach a parity attestation, as a conversion does."""
    content = statement(variant, source=source, reports=[{"check": "parity", "verdict": "clean"}])
    return backend.do(r.Attach(subject=variant, content=content))


def register(backend, model="churn", seed="model", **about):
    """Upload a small artifact and register it."""
    return backend.do(r.CreateVersion(model=model, digest=artifact(backend, seed), **about))


def intact(backend):
    """Say that every blob of every version is there, with the right content; return how many there are."""
    from vitrify.registry.needed import needed

    with backend.database.read() as connection:
        from sqlalchemy import select

        digests = set(connection.execute(select(needed(connection).c.digest)).scalars())
    for digest in digests:
        data = b"".join(map(bytes, backend.read(Digest.parse(digest))))
        assert hashlib.sha256(data).hexdigest() == digest.removeprefix("sha256:")
    return len(digests)


@contextmanager
def running(code, *arguments):
    """Run Python code in a process until the block ends, and kill it then; its first line says that it is ready."""
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.poll() is None, f"it ended by itself, with {process.returncode}"
    finally:
        process.kill()
        process.communicate()
