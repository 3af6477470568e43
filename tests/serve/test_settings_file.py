"""The file of the settings: what it says, and where it is wrong."""

from __future__ import annotations

import pytest

from vitrify.core.errors import DeniedError, UsageError
from vitrify.serve.settings import (
    CanarySettings,
    EnsembleSettings,
    RouteSettings,
    ShadowSettings,
    from_client,
)
from vitrify.serve.settings_file import read

WHOLE = """
[server]
port = 0
state = "state.json"

[[models]]
reference = "churn:1.2.0"
[models.batching]
rows = 64

[routes.churn]
weights = { "1.2.0" = 0.9, "1.3.0" = 0.1 }
shadow = [{ version = "1.4.0", fraction = 0.5 }]
[routes.churn.canary]
version = "1.3.0"
steps = [0.1, 1]
"""


def test_a_whole_file_is_read(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text(WHOLE)
    settings = read(path)
    assert (settings.server.port, settings.server.state, settings.models[0].batching.rows) == (0, "state.json", 64)
    assert settings.routes == {
        "churn": RouteSettings(
            weights={"1.2.0": 0.9, "1.3.0": 0.1},
            shadow=(ShadowSettings(version="1.4.0", fraction=0.5),),
            canary=CanarySettings(version="1.3.0", steps=(0.1, 1.0)),
        )
    }


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("port = 0", "prot = 0", r"unknown field `prot` - at `\$.server` \(line 3\)"),
        ("port = 0", "port = 'x'", r"`\$.server.port` \(line 3\)"),
        ("rows = 64", "rows = 0", r"batching.rows is 0; it is at least 1 - at .* \(line 9\)"),
        ('reference = "churn:1.2.0"', "", "missing required field `reference`"),
        ("0.9", "-0.9", r"weights is .* \(line 12\)"),
        ("0.5", "1.5", "fraction is 1.5; expected from 0 to 1"),
        ("[0.1, 1]", "[0.5, 0.1]", r"steps is .* 1 to 100 rising shares up to 1 - at .* \(line 16\)"),
        ("[0.1, 1]", "[]", "rising"),
        ("[routes.churn]", "[routes.churn", r"no TOML: .*line 11"),
        ("[server]", "[server]\nclients = 3", "unknown field `clients`"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, old, new, said):
    path = tmp_path / "serve.toml"
    path.write_text(WHOLE.replace(old, new))
    with pytest.raises(UsageError, match=said) as raised:
        read(path)
    assert str(path) in raised.value.message


def test_a_name_that_stands_twice_has_no_line(tmp_path):
    path = tmp_path / "serve.toml"
    path.write_text('[[models]]\nreference = "a"\nthreads = "x"\n[[models]]\nreference = "b"\nthreads = 2\n')
    with pytest.raises(UsageError, match=r"models\[0\]\.threads`\n"):
        read(path)


@pytest.mark.parametrize("content", [b"\xff", b"[" * 100_000, b"a = 1\na = 2", b"x" * (16 * 1024 * 1024 + 1)])
def test_what_is_no_toml_is_refused(tmp_path, content):
    path = tmp_path / "serve.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"serve\.toml"):
        read(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.toml")


def test_nobody_starts_a_program_of_this_machine_over_the_network():
    assert from_client({"reference": "churn"}, where="the body").reference == "churn"
    with pytest.raises(DeniedError, match="python"):
        from_client({"reference": "churn", "python": "/bin/true"}, where="the body")


def test_what_has_steps_or_outputs_is_an_ensemble():
    raw = {"name": "e", "steps": {"a": {"model": "m"}}, "outputs": {"o": "a.Y"}}
    found = from_client(raw, where="the body")
    assert isinstance(found, EnsembleSettings)
    assert (found.version, found.steps["a"].model) == ("1", "m")
    with pytest.raises(UsageError, match="version"):
        from_client({**raw, "version": ""}, where="the body")
    with pytest.raises(UsageError, match="reference"):
        from_client({**raw, "reference": "m"}, where="the body")
    for name in ("steps", "outputs"):
        with pytest.raises(UsageError, match=f"missing required field `{name}`"):
            from_client({at: one for at, one in raw.items() if at != name}, where="the body")
