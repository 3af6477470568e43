from __future__ import annotations

import threading

import pytest
from served_models import ROWS, multiplier, outputs, signature

from vitrify import stores
from vitrify.core.errors import CorruptError, ReferenceNotFoundError, UnavailableError, UsageError
from vitrify.runtimes.session import BaseSession
from vitrify.serve.lanes import Batching
from vitrify.serve.models.loading import _served
from vitrify.serve.models.opening import Sessions, find, label, open_session
from vitrify.serve.models.repository import Repository
from vitrify.serve.settings import ModelSettings


def nowhere():
    raise UnavailableError("no registry")


@pytest.mark.parametrize(
    ("reference", "name", "version"),
    [
        ("churn", "churn", "1"),
        ("churn:latest", "churn", "1"),
        ("churn:1.2.0", "churn", "1.2.0"),
        ("team/churn:7", "team/churn", "7"),
        ("churn@production", "churn", "production"),
        ("oci://ghcr.io/team/churn:1.0", "team/churn", "1.0"),
        ("oci://ghcr.io/team/churn", "team/churn", "1"),
        ("sha256:" + "ab" * 32, "abababababab", "1"),
        ("./models/churn.vit", "churn", "1"),
        ("/models/churn-1.2.tar", "churn-1.2", "1"),
        ("~/models/churn", "churn", "1"),
    ],
)
def test_a_reference_says_name_and_version_and_the_settings_say_otherwise(reference, name, version):
    assert label(ModelSettings(reference=reference)) == (name, version)
    assert label(ModelSettings(reference=reference, name="n")) == ("n", version)
    assert label(ModelSettings(reference=reference, version="v")) == (name, "v")


def test_a_reference_that_is_none_is_refused():
    with pytest.raises(UsageError, match="not a valid artifact name"):
        label(ModelSettings(reference="a b"))


@pytest.mark.parametrize("exported", ["m.vit", "m.tar"])
def test_an_exported_file_is_served_and_one_that_is_not_there_is_not_found(shelf, store, tmp_path, exported):
    path = tmp_path / exported
    stores.export(shelf, shelf.names.get("m:2.0").content, path)
    source, artifact = find(ModelSettings(reference=str(path)), store, nowhere)
    assert (source.name, source.version, artifact.digest) == ("m", "1", shelf.names.get("m:2.0").content)
    assert source.open().digest == artifact.digest
    with pytest.raises(ReferenceNotFoundError):
        find(ModelSettings(reference=f"{tmp_path}/gone.vit"), store, nowhere)


def test_a_folder_with_one_model_is_served_by_the_models_own_name(tmp_path):
    folder = stores.OciLayout(tmp_path / "folder")
    multiplier(folder, "churn:1.5", 2)
    settings = ModelSettings(reference=f"{tmp_path}/folder")
    source, artifact = find(settings, None, nowhere)
    assert (source.name, source.version) == ("churn", "1.5")
    repository = Repository()
    repository.announce(settings)
    assert [entry.key for entry in repository.all()] == [("folder", "1")]
    repository.place(settings, source, _served(source, artifact, settings))
    assert [entry.key for entry in repository.all()] == [("churn", "1.5")]


def test_bytes_that_changed_after_a_model_was_let_go_are_not_opened_again(tmp_path):
    store = stores.OciLayout(tmp_path)
    multiplier(store, "m", 2)
    source, artifact = find(ModelSettings(reference="m"), store, nowhere)
    for layer in artifact.manifest.layers:
        path = store.place(layer.content)
        path.chmod(0o644)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptError):
        source.open()


@pytest.mark.parametrize("options", [{"process": True}, {"python": "/usr/bin/python3"}])
def test_a_model_that_asks_for_workers_is_not_run_without_them(shelf, options):
    settings = ModelSettings(reference="m:1.0", **options)
    _, artifact = find(settings, shelf, nowhere)
    with pytest.raises(UsageError, match="worker processes"):
        open_session(artifact, settings)


class Slow(BaseSession):
    """A session that must not be run by two at a time."""

    def __init__(self):
        super().__init__(signature())
        self.busy, self.runs, self.resets, self.closed = threading.Lock(), 0, 0, False

    def _run(self, inputs):
        assert self.busy.acquire(blocking=False)
        self.runs += 1
        self.busy.release()
        return {name: array[: len(inputs["X"])] for name, array in outputs(2).items()}

    def close(self):
        self.closed = True


class Remembers(Slow):
    def reset(self):
        self.resets += 1


def sessions(shelf, kind, instances=1, runtime=None):
    made = []

    def open_one(artifact, settings):
        made.append(kind())
        return made[-1]

    settings = ModelSettings(reference="m:1.0", runtime=runtime, batching=Batching(instances=instances))
    _, artifact = find(settings, shelf, nowhere)
    return Sessions(artifact, settings, open_one), made


def test_a_runtime_whose_sessions_can_be_shared_has_one_and_any_other_one_an_instance(shelf):
    shared, made = sessions(shelf, Slow, 3)
    assert len(made) == 1
    shared.close()
    own, made = sessions(shelf, Slow, 3, "openvino")
    assert len(made) == 3
    threads = [threading.Thread(target=lambda: [own.run({"X": ROWS}) for _ in range(50)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.runs for one in made) == 150
    own.close()
    assert all(one.closed for one in made)


def test_a_session_that_remembers_starts_anew_with_each_batch(shelf):
    pool, (session,) = sessions(shelf, Remembers)
    for _ in range(3):
        pool.run({"X": ROWS})
    assert session.resets == 3


def test_where_one_of_several_sessions_cannot_be_opened_the_others_are_closed(shelf):
    made = []

    def open_one(artifact, settings):
        if len(made) == 2:
            raise UsageError("no more")
        made.append(Slow())
        return made[-1]

    settings = ModelSettings(reference="m:1.0", runtime="openvino", batching=Batching(instances=3))
    _, artifact = find(settings, shelf, nowhere)
    with pytest.raises(UsageError):
        Sessions(artifact, settings, open_one)
    assert [one.closed for one in made] == [True, True]
