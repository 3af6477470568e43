"""What was changed while the server ran is kept, whole or not at all, and shared by its processes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vitrify.core.errors import LimitExceededError, MalformedError, StoreError, UsageError
from vitrify.serve.rollout import wanted
from vitrify.serve.rollout.state import Event, State, StateFile
from vitrify.serve.settings import ModelSettings, RouteSettings, Settings

SETTINGS = Settings(
    models=(ModelSettings(reference="m:1.0"), ModelSettings(reference="m:2.0")),
    routes={"m": RouteSettings(weights={"1.0": 1.0})},
)
OTHER = RouteSettings(weights={"2.0": 1.0})


def event(number=0, model="m"):
    return Event(time=float(number), model=model, what="routed", reason=str(number))


def route(state, model="m", settings=SETTINGS, to=OTHER):
    return wanted.routed(state, settings.routes, model, to, event())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.json"


def test_without_a_file_it_is_kept_in_memory():
    file = StateFile()
    assert file.change(route).routes["m"].route == OTHER
    assert not file.read()
    assert file.leads()
    file.close()


def test_a_file_that_cannot_be_kept_is_refused_before_anything_counts_on_it(path):
    StateFile().require_writable()
    StateFile(str(path)).require_writable()
    path.touch()
    StateFile(str(path)).require_writable()
    with pytest.raises(UsageError, match=r"the state .*nowhere.* cannot be written: No such file or directory"):
        StateFile(str(path.parent / "nowhere" / path.name)).require_writable()


def test_what_one_process_changes_another_reads(path):
    one, other = StateFile(str(path)), StateFile(str(path))
    assert not other.read()
    one.change(route)
    assert other.read()
    assert other.state == one.state
    assert not other.read()
    other.change(lambda state: state.telling(event(7)))
    assert one.read()
    assert [told.reason for told in one.state.events] == ["0", "7"]


def test_changes_of_several_processes_are_all_kept(path):
    program = (
        "import sys; from vitrify.serve.rollout.state import Event, StateFile\n"
        "file = StateFile(sys.argv[1])\n"
        "for at in range(20):\n"
        "    file.change(lambda state: state.telling(Event(time=0, model=sys.argv[2], what=str(at))))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    assert [one.wait(120) for one in started] == [0, 0]
    file = StateFile(str(path))
    file.read()
    for name in ("a", "b"):
        assert [one.what for one in file.state.events if one.model == name] == [str(at) for at in range(20)]


def test_only_one_leads_until_it_lets_go(path):
    one, other = StateFile(str(path)), StateFile(str(path))
    assert one.leads()
    assert one.leads()
    assert not other.leads()
    one.close()
    assert other.leads()
    other.close()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", MalformedError),
        (b"{", MalformedError),
        (b"[]", MalformedError),
        (b'{"unknown": 1}', MalformedError),
        (b'{"routes": {"m": {"base": null, "route": {"weights": {"1": -1}}}}}', MalformedError),
        (b"[" * 100_000, MalformedError),
        (b"\xff", MalformedError),
        (b" " * (16 * 1024 * 1024 + 1), LimitExceededError),
    ],
)
def test_a_file_that_is_no_state_is_refused_and_left_alone(path, text, error):
    path.write_bytes(text)
    file = StateFile(str(path))
    with pytest.raises(error, match="state"):
        file.read()
    assert file.state == State()
    with pytest.raises(error):
        file.change(route)
    assert path.read_bytes() == text
    assert file.state.routes["m"].route == OTHER  # it counts here all the same


def test_where_it_cannot_be_written_it_counts_here_all_the_same(tmp_path):
    file = StateFile(str(tmp_path / "nowhere" / "state.json"))
    with pytest.raises(StoreError, match="state"):
        file.change(route)
    assert file.state.routes["m"].route == OTHER
    assert not file.leads()


def test_events_are_bounded():
    state = State()
    for number in range(1000):
        state = state.telling(event(number))
    assert len(state.events) == 200
    assert state.events[-1].reason == "999"


def test_a_route_that_was_changed_counts_until_the_settings_say_something_else():
    state = route(State())
    assert wanted.routes(SETTINGS.routes, State()) == SETTINGS.routes
    assert wanted.routes(SETTINGS.routes, state) == {"m": OTHER}
    third = RouteSettings(weights={"3.0": 1.0})
    assert wanted.routes({"m": third}, state) == {"m": third}
    assert wanted.routes({}, state) == {}
    assert wanted.routes({}, route(State(), settings=Settings())) == {"m": OTHER}


def test_models_that_were_loaded_and_unloaded_count_until_the_settings_say_something_else():
    one, two = SETTINGS.models
    state = wanted.unloaded(State(), SETTINGS, lambda settings: settings == one)
    assert wanted.everything(SETTINGS, state) == {"m:2.0": (two, 0)}
    changed = one.replace(threads=2)
    assert wanted.everything(SETTINGS.replace(models=(changed, two)), state).keys() == {"m:1.0", "m:2.0"}
    third = ModelSettings(reference="other")
    state = wanted.loaded(state, SETTINGS, third)
    assert wanted.everything(SETTINGS, state) == {"m:2.0": (two, 0), "other:1": (third, 1)}
    again = wanted.loaded(state, SETTINGS, third)
    assert wanted.everything(SETTINGS, again)["other:1"] == (third, 2)
    gone = wanted.unloaded(again, SETTINGS, lambda settings: settings == third)
    assert gone.models.keys() == {"m:1.0"}  # what nobody named need not be remembered
    back = wanted.loaded(gone, SETTINGS, one)
    assert wanted.everything(SETTINGS, back)["m:1.0"] == (one, 1)


def test_what_the_settings_say_anew_is_no_longer_overruled_even_when_they_say_it_again_later():
    one, two = SETTINGS.models
    state = wanted.unloaded(route(State()), SETTINGS, lambda settings: settings == one)
    other = SETTINGS.replace(models=(two,), routes={})
    assert wanted.forgotten(state, SETTINGS, SETTINGS) is state
    assert wanted.forgotten_routes(state, SETTINGS.routes, SETTINGS.routes) is state
    # What was said when the settings were others still waits for them: a tag is read only after a restart.
    assert wanted.forgotten_routes(state, {}, SETTINGS.routes) is state
    forgotten = wanted.forgotten(wanted.forgotten_routes(state, SETTINGS.routes, {}), SETTINGS, other)
    assert (forgotten.routes, forgotten.models) == ({}, {})
    assert wanted.everything(SETTINGS, forgotten).keys() == {"m:1.0", "m:2.0"}
