"""What is run together, in which order, and who gets what; see :mod:`.lanes`."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitrify.core.signature import BATCH, Field
from vitrify.serve.values import Infer
from vitrify.testing.lane_models import LIMIT, WIDTH, LaneSuite, Model, answer, ask, opened, plug, row, same, twice

if TYPE_CHECKING:
    from vitrify.core.protocols import Arrays
    from vitrify.serve.lanes import MakeLane

_BYTES = (Field(name="x", dtype="bytes", shape=(BATCH,)),)


class BatchConformance(LaneSuite):
    """What is run together, in which order, and who gets what."""

    def test_an_answer_says_which_model_made_it(self, make: MakeLane) -> None:
        with opened(make, twice) as lane:
            reply = lane.submit(ask(4, 5, id="abc")).result(LIMIT)
        same(reply.outputs, 4, 5)
        assert (reply.model, reply.version, reply.id, reply.digest) == ("glass", "3", "abc", f"sha256:{'0' * 64}")

    def test_what_waits_together_is_run_together_and_each_gets_its_own_rows(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model) as lane:
            plug(lane, model)
            futures = [lane.submit(ask(*values)) for values in ((1,), (2, 3), (4, 5, 6))]
            model.release()
            for future, values in zip(futures, ((1,), (2, 3), (4, 5, 6)), strict=True):
                same(answer(future), *values)
        assert model.firsts == [[-1], [1, 2, 3, 4, 5, 6]]

    def test_a_batch_has_never_more_rows_than_it_may(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, rows=4) as lane:
            plug(lane, model)
            for values in ((1, 2, 3), (4, 5), (6,), (7, 8, 9, 10), (11,)):
                lane.submit(ask(*values))
        assert model.firsts == [[-1], [1, 2, 3], [4, 5, 6], [7, 8, 9, 10], [11]]

    @pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 17, 50])
    def test_a_request_of_any_size_is_whole_again(self, make: MakeLane, count: int) -> None:
        model = Model()
        with opened(make, model, rows=8) as lane:
            same(answer(lane.submit(ask(*range(count)))), *range(count))
        sizes = [len(batch) for batch in model.firsts]
        assert (sum(sizes), max(sizes)) == (count, min(count, 8))
        assert len(sizes) == math.ceil(count / 8)

    def test_the_pieces_of_a_large_request_share_batches_with_others(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, rows=4) as lane:
            plug(lane, model)
            large, small = lane.submit(ask(*range(6))), lane.submit(ask(10, 11))
            model.release()
            same(answer(large), *range(6))
            same(answer(small), 10, 11)
        assert model.firsts == [[-1], [0, 1, 2, 3], [4, 5, 10, 11]]

    def test_with_one_row_a_batch_every_request_is_run_by_itself_and_whole(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, rows=1) as lane:
            plug(lane, model)
            futures = [lane.submit(ask(*values)) for values in ((1,), (2,), (3, 4, 5))]
            model.release()
            same(answer(futures[2]), 3, 4, 5)
        assert model.firsts == [[-1], [1], [2], [3, 4, 5]]

    def test_a_request_without_rows_is_run_by_itself(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model) as lane:
            plug(lane, model)
            none, one = lane.submit(ask()), lane.submit(ask(1))
            model.release()
            same(answer(none))
            same(answer(one), 1)
        assert model.firsts == [[-1], [], [1]]

    def test_what_differs_in_a_dimension_is_not_run_together(self, make: MakeLane) -> None:
        fields = (Field(name="x", dtype="float32", shape=(BATCH, "width")),)
        model = Model(lambda arrays: {"x": arrays["x"]}, held=True)
        with opened(make, model, inputs=fields, outputs=fields) as lane:
            plug(lane, model)
            asked = [np.full((2, width), index, np.float32) for index, width in enumerate((3, 4, 3, 4, 5))]
            futures = [lane.submit(Infer("glass", {"x": array})) for array in asked]
            model.release()
            for future, array in zip(futures, asked, strict=True):
                np.testing.assert_array_equal(answer(future)["x"], array, strict=True)
        assert model.firsts == [[-1], [0, 0, 2, 2], [1, 1, 3, 3], [4, 4]]

    def test_the_order_of_inputs_does_not_matter(self, make: MakeLane) -> None:
        inputs = tuple(Field(name=name, dtype="float32", shape=(BATCH, WIDTH)) for name in ("x", "y"))
        model = Model(lambda arrays: {"out": arrays["x"] - arrays["y"]}, held=True)
        outputs = (Field(name="out", dtype="float32", shape=(BATCH, WIDTH)),)
        with opened(make, model, inputs=inputs, outputs=outputs) as lane:
            hold = lane.submit(Infer("glass", {"x": row(-1), "y": row(0)}))
            model.entered()
            one = lane.submit(Infer("glass", {"x": row(5), "y": row(1)}))
            other = lane.submit(Infer("glass", {"y": row(2), "x": row(9)}))
            model.release()
            got = [answer(future)["out"][0, 0] for future in (hold, one, other)]
        assert got == [-1, 4, 7]
        assert model.firsts == [[-1], [5, 9]]

    def test_smaller_priorities_come_first_and_normal_comes_last(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, rows=1) as lane:
            plug(lane, model)
            for value, priority in enumerate((0, 3, 1, 2, 1, 0, 3)):
                lane.submit(ask(value, priority=priority))
        assert model.firsts == [[-1], [2], [4], [3], [1], [6], [0], [5]]

    def test_a_lower_priority_fills_a_batch_only_where_it_passes_nobody(self, make: MakeLane) -> None:
        model = Model(lambda arrays: {"x": arrays["x"]}, held=True)
        fields = (Field(name="x", dtype="float32", shape=(BATCH, "width")),)
        with opened(make, model, inputs=fields, outputs=fields) as lane:
            plug(lane, model)
            for value, width, priority in ((1, 3, 1), (2, 4, 1), (3, 3, 0), (4, 3, 1), (5, 4, 0)):
                lane.submit(Infer("glass", {"x": np.full((1, width), value, np.float32)}, priority=priority))
        assert model.firsts == [[-1], [1, 4], [2, 5], [3]]

    def test_each_gets_the_outputs_that_it_asked_for_in_its_order(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model) as lane:
            plug(lane, model)
            wanted: list[tuple[str, ...]] = [(), ("first",), ("first", "twice"), ("twice",)]
            futures = [lane.submit(ask(7, outputs=names)) for names in wanted]
            model.release()
            got = [list(answer(future)) for future in futures]
        assert got == [["twice", "first"], ["first"], ["first", "twice"], ["twice"]]
        assert len(model.firsts) == 2  # noqa: PLR2004 (the one that held it, and one batch)

    def test_bytes_are_put_together(self, make: MakeLane) -> None:
        model = Model(lambda arrays: {"x": arrays["x"]}, held=True)
        with opened(make, model, inputs=_BYTES, outputs=_BYTES) as lane:
            asked = [np.array(values, object) for values in ([b"hold"], [b"a", b""], [b"\0\xff" * 100])]
            futures = [lane.submit(Infer("glass", {"x": asked[0]}))]
            model.entered()
            futures += [lane.submit(Infer("glass", {"x": array})) for array in asked[1:]]
            model.release()
            assert [answer(future)["x"].tolist() for future in futures] == [array.tolist() for array in asked]
        assert [len(batch["x"]) for batch in model.batches] == [1, 3]

    def test_an_answer_stays_what_it_is_when_the_model_uses_its_memory_again(self, make: MakeLane) -> None:
        memory: Arrays = {"twice": np.zeros((8, WIDTH), np.float32), "first": np.zeros(8, np.int64)}

        def run(inputs: Arrays) -> Arrays:
            outputs = twice(inputs)
            for name, array in outputs.items():
                memory[name][: len(array)] = array
            return {name: memory[name][: len(array)] for name, array in outputs.items()}

        with opened(make, run) as lane:
            answers = [answer(lane.submit(ask(value))) for value in range(5)]
        for value, outputs in enumerate(answers):
            same(outputs, value)

    def test_under_light_load_nothing_waits_for_more(self, make: MakeLane) -> None:
        with opened(make, twice, delay_us=int(1e6 * LIMIT)) as lane:
            for value in range(50):
                same(answer(lane.submit(ask(value))), value)

    def test_a_full_batch_does_not_wait_for_more(self, make: MakeLane) -> None:
        with opened(make, twice, rows=2, delay_us=int(1e6 * LIMIT)) as lane:
            for value in range(0, 100, 2):
                same(answer(lane.submit(ask(value, value + 1))), value, value + 1)

    def test_several_instances_run_at_the_same_time(self, make: MakeLane) -> None:
        model = Model(held=True)
        with opened(make, model, instances=3, rows=1) as lane:
            futures = [lane.submit(ask(value)) for value in range(3)]
            for _ in futures:
                model.entered()
            assert lane.figures().running == len(futures)
            model.release()
            for value, future in enumerate(futures):
                same(answer(future), value)

    @given(
        requests=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=12),
        rows=st.integers(1, 9),
        instances=st.integers(1, 2),
        held=st.booleans(),
    )
    def test_whatever_comes_everybody_gets_exactly_what_is_theirs(
        self, make: MakeLane, requests: list[tuple[int, int]], rows: int, instances: int, *, held: bool
    ) -> None:
        model = Model(held=held)
        asked = [
            ([index * 100 + one for one in range(count)], priority) for index, (count, priority) in enumerate(requests)
        ]
        with opened(make, model, rows=rows, instances=instances, delay_us=200) as lane:
            futures = [lane.submit(ask(*values, priority=priority)) for values, priority in asked]
            model.release()
            for future, (values, _) in zip(futures, asked, strict=True):
                same(answer(future), *values)
            assert lane.figures().ok == len(requests)
        assert sorted(chain.from_iterable(model.firsts)) == sorted(chain.from_iterable(values for values, _ in asked))
        assert rows == 1 or all(len(batch) <= rows for batch in model.firsts)
