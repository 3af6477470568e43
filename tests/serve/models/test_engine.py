from __future__ import annotations

import asyncio
import dataclasses

import numpy as np
import pytest
from served_models import ROWS, outputs

from vitrify.core.errors import (
    CheckFailedError,
    DeniedError,
    ModelError,
    ReferenceNotFoundError,
    SignatureError,
    UnavailableError,
    VitrifyError,
)
from vitrify.serve.lanes import Batching
from vitrify.serve.lanes.threads import ThreadLane
from vitrify.serve.models.version import lane_spec
from vitrify.serve.settings import ModelSettings
from vitrify.serve.values import Infer

ONE, TWO, OTHER = (ModelSettings(reference=one) for one in ("m:1.0", "m:2.0", "other"))
LIAR = ModelSettings(reference="liar", name="m", version="1.0")


def ask(model="m", rows=ROWS[:1], **about):
    return Infer(model, {"X": rows}, **about)


async def factor(engine, **about):
    """Return what a model multiplies with, and the version that said so."""
    reply = await engine.infer(ask(rows=np.ones((1, 4), np.float32), **about))
    return reply.outputs["Y"][0, 0], reply.version


def test_a_model_answers_and_the_answer_names_version_and_digest(serving, shelf):
    async def test():
        async with serving() as engine:
            served = await engine.load(ONE)
            reply = await engine.infer(ask(rows=ROWS, id="r7"))
            assert np.array_equal(reply.outputs["Y"], outputs(2)["Y"])
            assert np.array_equal(reply.outputs["L"], outputs(2)["L"])
            assert (reply.model, reply.version, reply.id, reply.digest) == ("m", "1.0", "r7", served.digest)
            assert served.digest == str(shelf.names.get("m:1.0").content)
            assert (served.state, served.reason, served.platform) == ("READY", "", "onnx_onnxruntime")
            assert (served.inputs[0].shape, served.inputs[0].datatype) == ((-1, 4), "FP32")
            assert served.batching.rows == 32
            assert served.size > 0

    asyncio.run(test())


def test_versions_are_served_side_by_side_and_the_last_loaded_answers_by_default(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            await engine.load(TWO)
            assert [one.version for one in engine.index()] == ["1.0", "2.0"]
            assert [one.number for one in engine.index()] == [1, 2]
            assert await factor(engine) == (3, "2.0")
            assert await factor(engine, version="1.0") == (2, "1.0")
            await engine.load(ONE)  # it is there: nothing changes
            assert await factor(engine) == (3, "2.0")
            await engine.load(ONE.replace(batching=Batching(rows=8)))
            assert await factor(engine) == (2, "1.0")
            assert engine.default("m") == "1.0"
            await engine.unload("m", "1.0")
            assert await factor(engine) == (3, "2.0")

    asyncio.run(test())


def test_the_rollout_chooses_the_version_and_what_it_does_not_know_is_the_default(serving):
    async def test():
        async with serving(choose=lambda request: request.key) as engine:
            await engine.load(ONE)
            await engine.load(TWO)
            assert await factor(engine, key="1.0") == (2, "1.0")
            assert await factor(engine, key="") == (3, "2.0")
            assert await factor(engine, key="gone") == (3, "2.0")
            assert await factor(engine, key="2.0", version="1.0") == (2, "1.0")
            await engine.unload("m", "1.0")
            assert await factor(engine, key="1.0") == (3, "2.0")

    asyncio.run(test())


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        (ask("nobody"), ReferenceNotFoundError, "'nobody'"),
        (ask(version="9"), ReferenceNotFoundError, "'9'"),
        (Infer("m", {}), SignatureError, "nothing"),
        (Infer("m", {"X": ROWS, "Z": ROWS}), SignatureError, "'Z'"),
        (ask(rows=ROWS[:, :3]), SignatureError, "axis 1 must be 4, not 3"),
        (ask(rows=ROWS[0]), SignatureError, "give 2 dimensions"),
        (ask(rows=ROWS.astype(str)), SignatureError, "string"),
        (ask(outputs=("Y", "Z")), SignatureError, "no output is called 'Z'"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(serving, request_, error, said):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            with pytest.raises(error, match=said):
                await engine.infer(request_)

    asyncio.run(test())


def test_other_types_are_cast_where_no_value_changes_and_outputs_come_in_the_order_asked_for(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            reply = await engine.infer(ask(rows=ROWS.astype(np.int64), outputs=("L", "Y")))
            assert list(reply.outputs) == ["L", "Y"]
            assert reply.outputs["Y"].dtype == np.float32

    asyncio.run(test())


def test_no_rows_are_answered_without_the_model(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            reply = await engine.infer(ask(rows=ROWS[:0], outputs=("L",), id="none"))
            assert list(reply.outputs) == ["L"]
            assert (reply.outputs["L"].shape, reply.outputs["L"].dtype, reply.id) == ((0,), np.int64, "none")
            assert engine.figures("m", "1.0").batches == 0

    asyncio.run(test())


def test_a_stream_of_a_model_that_makes_no_parts_is_one_reply(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            assert [reply.outputs["Y"].shape async for reply in engine.stream(ask())] == [(1, 4)]

    asyncio.run(test())


def test_the_same_bytes_with_the_same_settings_are_left_as_they_are(serving, opened):
    async def test():
        async with serving() as engine:
            before = await engine.load(ONE)
            assert await engine.load(ONE) is before
            assert opened.names == ["m:1.0"]
            after = await engine.load(ONE.replace(batching=Batching(rows=4)))
            assert (after.batching.rows, len(opened.names)) == (4, 2)

    asyncio.run(test())


def test_a_version_that_does_not_give_its_golden_outputs_is_not_served(serving, opened, until):
    async def test():
        async with serving() as engine:
            with pytest.raises(CheckFailedError, match="golden"):
                await engine.load(LIAR.replace(name="liar"))
            assert engine.served("liar").state == "UNAVAILABLE"
            assert "golden" in engine.served("liar").reason
            with pytest.raises(UnavailableError, match="golden"):
                await engine.infer(ask("liar"))
            assert opened.closed == ["liar:latest"]

    asyncio.run(test())


def test_a_failed_load_leaves_the_old_version_serving_and_says_so(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            with pytest.raises(CheckFailedError):
                await engine.load(LIAR)
            assert await factor(engine) == (2, "1.0")
            served = engine.served("m")
            assert (served.state, "not replaced by liar" in served.reason) == ("READY", True)
            with pytest.raises(ReferenceNotFoundError):
                await engine.load(ModelSettings(reference="gone:7", name="m", version="1.0"))
            assert await factor(engine) == (2, "1.0")
            assert engine.settings("m") == (ONE,)

    asyncio.run(test())


def test_what_a_library_raises_while_a_model_is_opened_is_an_error_of_ours(serving, opened):
    async def test():
        async with serving() as engine:
            opened.fails = RuntimeError("the kernel is odd")
            with pytest.raises(ModelError, match="RuntimeError: the kernel is odd"):
                await engine.load(ONE)
            opened.fails = None
            assert (await engine.load(ONE)).state == "READY"

    asyncio.run(test())


def test_what_is_wanted_and_not_found_is_in_the_index_with_the_reason_until_it_is(serving):
    async def test():
        async with serving() as engine:
            (error,) = await engine.start([ModelSettings(reference="gone")])
            assert isinstance(error, ReferenceNotFoundError)
            (missing,) = engine.index()
            assert (missing.name, missing.version, missing.state) == ("gone", "1", "UNAVAILABLE")
            assert missing.reason == "there is no such artifact"  # and not in which folder of ours
            await engine.load(ModelSettings(reference="m:1.0", name="gone", version="1"))
            (found,) = engine.index()
            assert (found.state, found.number) == ("READY", 1)

    asyncio.run(test())


@pytest.mark.parametrize("reference", ["gone", "gone:2", "m:3.0", "sha256:" + "0" * 64])
def test_what_is_asked_for_once_and_not_found_leaves_nothing_behind(serving, reference):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            with pytest.raises(VitrifyError):
                await engine.load(ModelSettings(reference=reference))
            (left,) = engine.index()
            assert (left.name, left.version, left.state) == ("m", "1.0", "READY")
            assert engine.settings("gone") == ()

    asyncio.run(test())


def test_what_is_found_and_cannot_be_loaded_is_in_the_index_with_the_reason(serving):
    async def test():
        async with serving() as engine:
            with pytest.raises(CheckFailedError):
                await engine.load(ModelSettings(reference="liar"))
            (found,) = engine.index()
            assert (found.name, found.state, found.number) == ("liar", "UNAVAILABLE", 1)
            assert "golden outputs" in found.reason

    asyncio.run(test())


def test_a_rolling_reload_under_load_drops_no_request(serving, opened, until):
    live = {"name": "m", "version": "live"}

    async def test():
        async with serving() as engine:
            await engine.load(ONE.replace(**live))
            seen, stop = set(), asyncio.Event()

            async def client():
                while not stop.is_set():
                    seen.add((await factor(engine))[0])

            clients = [asyncio.create_task(client()) for _ in range(4)]
            for turn in range(6):
                await engine.load((TWO, ONE)[turn % 2].replace(**live))
            await until(lambda: len(opened.closed) == 6)
            stop.set()
            await asyncio.gather(*clients)
            assert seen == {2, 3}
            figures = engine.figures("m", "live")
            assert (figures.failed, figures.waiting, figures.running) == ({}, 0, 0)
            assert figures.ok >= len(seen)

    asyncio.run(test())


def test_figures_are_kept_across_reloads_and_unloads(serving, until):
    async def test():
        async with serving() as engine:
            for _ in range(3):
                await engine.load(ONE)
                await engine.infer(ask(rows=ROWS))
                await engine.unload("m", "1.0")
            figures = engine.figures("m", "1.0")
            assert (figures.ok, figures.rows, figures.batches) == (3, 30, 3)
            assert sum(figures.answered.counts) == 3
            await engine.load(ONE)
            await engine.load(ONE.replace(batching=Batching(rows=2)))
            await engine.infer(ask())
            await until(lambda: engine.figures("m", "1.0").ok == 4)

    asyncio.run(test())


def test_what_was_unloaded_is_not_found_and_comes_back_by_its_own_settings(serving, opened):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            await engine.load(TWO)
            await engine.unload("m")
            assert {(one.state, one.reason) for one in engine.index()} == {("UNAVAILABLE", "unloaded")}
            with pytest.raises(ReferenceNotFoundError, match="unloaded"):
                await engine.infer(ask())
            assert sorted(opened.closed) == ["m:1.0", "m:2.0"]
            for settings in engine.settings("m"):
                await engine.load(settings)
            assert await factor(engine) == (3, "2.0")
            with pytest.raises(ReferenceNotFoundError):
                await engine.unload("nobody")
            assert engine.settings("nobody") == ()

    asyncio.run(test())


def test_it_is_ready_when_everything_that_was_to_be_loaded_at_the_start_is(serving):
    async def test():
        async with serving() as engine:
            assert engine.ready
            failed = await engine.start([ONE, ModelSettings(reference="gone"), OTHER])
            assert [type(error) for error in failed] == [ReferenceNotFoundError]
            assert not engine.ready
            assert await factor(engine) == (2, "1.0")
        assert not engine.ready

        async with serving() as engine:
            assert await engine.start([ONE, OTHER]) == ()
            assert engine.ready

    asyncio.run(test())


def test_closing_answers_what_was_taken_and_refuses_the_rest(serving, opened):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            waiting = [asyncio.create_task(engine.infer(ask(rows=ROWS))) for _ in range(50)]
            await asyncio.sleep(0)
            await engine.close(20.0)
            replies = await asyncio.gather(*waiting)
            assert all(np.array_equal(reply.outputs["Y"], outputs(2)["Y"]) for reply in replies)
            assert opened.closed == ["m:1.0"]
            with pytest.raises(UnavailableError, match="stopping"):
                await engine.infer(ask())
            with pytest.raises(UnavailableError, match="stopping"):
                await engine.load(TWO)

    asyncio.run(test())


def test_something_that_is_no_artifact_answers_like_a_model(serving):
    async def test():
        async with serving() as engine:
            like = await engine.load(ONE)
            ended = []
            made = dataclasses.replace(like, name="sum", version="1")
            lane = ThreadLane(lane_spec(made), lambda arrays: {"Y": arrays["X"] + 1, "L": np.zeros(len(arrays["X"]))})
            assert engine.add(made, lane, lambda: ended.append(True)).state == "READY"
            reply = await engine.infer(ask("sum"))
            assert np.array_equal(reply.outputs["Y"], ROWS[:1] + 1)
            assert engine.settings("sum") == ()
        assert ended == [True]

    asyncio.run(test())


def test_a_change_is_told_before_what_was_replaced_is_let_go(serving, opened):
    async def test():
        async with serving() as engine:
            told = []
            engine.when_changed(lambda: told.append((engine.default("m"), tuple(opened.closed))))
            await engine.load(ONE)
            await engine.load(TWO)
            await engine.unload("m", "2.0")
            assert told == [("1.0", ()), ("2.0", ()), ("1.0", ())]

    asyncio.run(test())


def test_one_engine_answers_in_several_loops_one_after_the_other(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            other = await asyncio.to_thread(lambda: asyncio.run(factor(engine)))
            assert other == await factor(engine) == (2, "1.0")

    asyncio.run(test())


def test_a_client_that_leaves_takes_its_request_out_of_the_queue(serving):
    async def test():
        async with serving() as engine:
            await engine.load(ONE)
            asked = [asyncio.ensure_future(engine.infer(ask())) for _ in range(20)]
            await asyncio.sleep(0)
            for one in asked[::2]:
                one.cancel()
            done = await asyncio.gather(*asked, return_exceptions=True)
            assert all(np.array_equal(reply.outputs["Y"], outputs(2)["Y"][:1]) for reply in done[1::2])
            assert engine.figures("m", "1.0").waiting == 0

    asyncio.run(test())


def test_the_policy_of_this_machine_is_asked_before_a_model_is_served(serving, opened, tmp_path, monkeypatch):
    policy = tmp_path / "policy.toml"
    policy.write_text('[[require]]\nfor = ["serve"]\nnames = ["m"]\nrules = [{ rule = "sbom" }]\n')
    monkeypatch.setenv("VITRIFY_POLICY", str(policy))

    async def test():
        async with serving() as engine:
            with pytest.raises(DeniedError, match="serve m"):
                await engine.load(ONE)
            assert engine.served("m").state == "UNAVAILABLE"
            assert (await engine.load(OTHER)).state == "READY"
            assert opened.names == ["other:latest"]

    asyncio.run(test())
