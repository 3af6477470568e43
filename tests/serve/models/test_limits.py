from __future__ import annotations

import asyncio

import pytest

from vitrify.core.errors import UsageError
from vitrify.serve.lanes import Batching
from vitrify.serve.models.limits import require_sane
from vitrify.serve.settings import ModelSettings


@pytest.mark.parametrize(("field", "value"), [("rows", 2**40), ("instances", 1_000_000)])
def test_batching_that_no_machine_could_keep_is_refused_by_name(field, value):
    with pytest.raises(UsageError, match=rf"batching\.{field} is {value}"):
        require_sane(ModelSettings(reference="m", batching=Batching(**{field: value})))


WRONG = [("name", "a\nb"), ("version", "v" * 201), ("name", " m"), ("threads", -1), ("threads", 10**9)]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_names_and_threads_are_bounded(field, value):
    with pytest.raises(UsageError, match=field):
        require_sane(ModelSettings(reference="m", **{field: value}))


def test_what_is_refused_leaves_no_trace(serving):
    async def test():
        async with serving() as engine:
            with pytest.raises(UsageError):
                await engine.load(ModelSettings(reference="m:1.0", batching=Batching(instances=1000)))
            assert engine.index() == ()

    asyncio.run(test())
