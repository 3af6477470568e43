"""A session over parts: fed in order, closed together, refused where something is missing."""

from __future__ import annotations

import numpy as np
import pytest
from formats.test_hybrid import document, recipe, recipes, write

from vitrify.core.errors import MalformedError, MissingDependencyError, SignatureError, UntrustedCodeError, UsageError
from vitrify.core.protocols import Allow, Session
from vitrify.inspection.identify import files_at
from vitrify.runtimes import onnxruntime
from vitrify.runtimes.hybrid import Hybrid

WHOLE = document(format="hybrid", runtime="hybrid", entry={})
X = np.array([[1.0, 5.0], [2.0, 6.0]])


def opened(folder, made=None, whole=WHOLE, allow=()):
    return Hybrid().open(files_at(write(folder, made)), whole, Allow.of(allow))


def test_it_is_a_session_like_any_other(tmp_path):
    with opened(tmp_path) as session:
        assert isinstance(session, Session)
        assert session.run({"X": X})["transformed"].tolist() == [[2.0, 6.0], [4.0, 12.0]]
        assert session.predict(X[:1])["transformed"].tolist() == [[2.0, 6.0]]
        assert session.run({"X": X[:0]})["transformed"].shape == (0, 2)
        with pytest.raises(SignatureError, match="X"):
            session.run({})


def test_every_part_is_closed_also_when_a_later_one_cannot_be_opened(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(onnxruntime.OnnxSession, "close", lambda session: closed.append(session))  # noqa: PLW0108 (a method binds)
    opened(tmp_path).close()
    assert len(closed) == 2
    closed.clear()
    (tmp_path / "broken").mkdir()
    folder = write(tmp_path / "broken")
    (folder / recipes.path(1, "model.onnx")).write_bytes(b"no graph")
    with pytest.raises(MalformedError):
        Hybrid().open(files_at(folder), WHOLE, Allow())
    assert len(closed) == 1


def test_a_part_whose_library_is_missing_is_named(tmp_path, monkeypatch):
    from vitrify.core.row import Row

    monkeypatch.setattr(Row, "load", lambda row: (_ for _ in ()).throw(MissingDependencyError(f"{row.name} needs it")))
    with pytest.raises(MissingDependencyError, match="onnxruntime"):
        opened(tmp_path)


def test_what_cannot_be_is_refused(tmp_path):
    steps = recipe().steps
    needing = document().replace(code=document().code.replace(names=("acme.Step",)))
    cases = {
        "code": (recipe(steps=(steps[0].replace(document=needing), *steps[1:])), WHOLE, UntrustedCodeError),
        "order": (recipe(steps=(steps[1], steps[0], steps[2])), WHOLE, MalformedError),
        "signature": (recipe(), WHOLE.replace(signature=None), UsageError),
    }
    for name, (made, whole, error) in cases.items():
        (tmp_path / name).mkdir()
        with pytest.raises(error):
            opened(tmp_path / name, made, whole)
    with pytest.raises(UsageError, match="converting"):
        Hybrid().wrap(object(), WHOLE)
