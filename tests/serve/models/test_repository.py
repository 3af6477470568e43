from __future__ import annotations

import pytest

from vitrify.core.errors import ReferenceNotFoundError, UnavailableError
from vitrify.serve.models.loading import _served
from vitrify.serve.models.opening import find
from vitrify.serve.models.repository import Repository
from vitrify.serve.settings import ModelSettings


def nowhere():
    raise UnavailableError("no registry")


@pytest.mark.parametrize(
    ("versions", "numbers"),
    [
        (["1", "2", "10"], [1, 2, 10]),
        (["a", "b"], [1, 2]),
        (["7", "a"], [7, 8]),
        (["0", "00", "-1", "9" * 30, "²"], [1, 2, 3, 4, 5]),
        (["007"], [7]),
    ],
)
def test_protocols_that_know_numbers_only_get_the_version_or_its_place(shelf, versions, numbers):
    repository = Repository()
    for version in versions:
        settings = ModelSettings(reference="m:1.0", version=version)
        source, artifact = find(settings, shelf, nowhere)
        repository.place(settings, source, _served(source, artifact, settings))
    assert {entry.served.version: entry.served.number for entry in repository.all()} == dict(
        zip(versions, numbers, strict=True)
    )


def test_what_never_came_is_forgotten_when_there_is_too_much_of_it():
    repository = Repository()
    for version in range(100):
        settings = ModelSettings(reference="m", version=f"v{version}")
        repository.announce(settings)
        repository.missed(settings, "gone")
    assert len(repository.all()) == 20


def test_only_what_was_announced_and_is_not_there_is_forgotten(shelf):
    repository = Repository()
    settings = ModelSettings(reference="m:1.0")
    announced = repository.announce(settings)
    assert repository.announce(settings) is None
    source, artifact = find(settings, shelf, nowhere)
    entry = repository.place(settings, source, _served(source, artifact, settings))
    for one in (announced, entry):
        repository.forget(one)
    assert repository.all() == (entry,)
    other = repository.announce(ModelSettings(reference="m:3.0"))
    repository.forget(other)
    repository.forget(other)
    assert repository.all() == (entry,)
    repository.forget(repository.announce(ModelSettings(reference="gone")))
    with pytest.raises(ReferenceNotFoundError, match="there are: 'm'"):
        repository.find("gone")
