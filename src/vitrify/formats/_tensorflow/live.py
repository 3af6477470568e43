"""A saved model from a live one, and back: the function that serves, with the variables that it reads, by name."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vitrify.core.errors import MalformedError, UnsupportedModelError
from vitrify.formats._laid_out import lay_out
from vitrify.formats._tensorflow.canonical import canonical
from vitrify.formats._tensorflow.loaded import tf
from vitrify.formats._tensorflow.quiet import quiet
from vitrify.formats._tensorflow.serving import DEFAULT, unique
from vitrify.formats._tensorflow.slots import without_slots
from vitrify.reading.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vitrify.core.protocols import Files, Sink

FILE = "saved_model.pb"
_FINGERPRINT = "fingerprint.pb"
_MAX_REASON = 400
_CHUNK = 1 << 20


@contextmanager
def saved(function: Any, model: Any, variables: Mapping[str, Any] | None = None) -> Iterator[Files]:
    """Yield the files of a saved model made of a traced function; the same function gives the same bytes.

    Args:
        function: Takes tensors by name, and returns a dict of them.
        model: What holds the tables and files that it reads.
        variables: The function's variables by the names that they get; without them, their own.

    Raises:
        UnsupportedModelError: It reads what no part of the model holds.
    """
    kept = tf.Module()
    kept.weights = dict(sorted((_variables(function) if variables is None else variables).items()))
    kept.resources = _resources(function, model)
    with tempfile.TemporaryDirectory(prefix="vitrify-") as folder:
        try:
            with quiet():
                tf.saved_model.save(kept, folder, signatures={DEFAULT: function})
        except (AssertionError, ValueError, TypeError, tf.errors.OpError) as error:
            msg = f"TensorFlow cannot save this function: {str(error).strip()[:_MAX_REASON]}"
            remedy = "keep variables, tables and files as attributes of a tf.Module, and save that"
            raise UnsupportedModelError(msg, remedy=remedy) from error
        (main := Path(folder, FILE)).write_bytes(canonical(main.read_bytes()))
        Path(folder, _FINGERPRINT).unlink(missing_ok=True)  # it has a random name in it
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        yield LocalFiles({path.relative_to(folder).as_posix(): path for path in paths})


def hand_over(files: Files, sink: Sink) -> None:
    """Write the files of a saved model."""
    for name in files.names():
        with (
            sink.open(name, "weight.config" if name == FILE else "weight") as stream,
            files.path(name).open("rb") as source,
        ):
            shutil.copyfileobj(source, stream, _CHUNK)


def read(files: Files) -> Any:
    """Load a saved model, which its caller has looked at and trusts.

    Raises:
        MalformedError: TensorFlow cannot load it.
        UnsupportedModelError: It has operators that this TensorFlow lacks.
    """
    folder = tempfile.mkdtemp(prefix="vitrify-")
    try:
        lay_out(files, Path(folder))
        _leave_optimizers(Path(folder, FILE))
        with quiet():
            model = tf.saved_model.load(folder)
    except tf.errors.NotFoundError as error:
        shutil.rmtree(folder, ignore_errors=True)
        msg = f"TensorFlow {tf.__version__} lacks something of this model: {error.message[:_MAX_REASON]}"
        raise UnsupportedModelError(msg, remedy="import the library that has its operators first") from error
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, MalformedError):
            raise
        msg = f"TensorFlow cannot load this model: {type(error).__name__}: {str(error)[:_MAX_REASON]}"
        raise MalformedError(msg, remedy="save it again") from error
    # Its tables may read their files later on; the folder goes when the model goes.
    weakref.finalize(model, shutil.rmtree, folder, ignore_errors=True)
    return model


def _leave_optimizers(main: Path) -> None:
    """Replace the main file, which may be a link to the caller's own, where an optimiser has its state in it."""
    if main.is_file() and (kept := without_slots(content := main.read_bytes())) != content:
        main.unlink()
        main.write_bytes(kept)


def variables_of(function: Any) -> list[Any]:
    """Return the variables that a function reads, in the order in which it first does: TensorFlow's own is random."""
    order = {id(given): at for at, (given, _) in enumerate(function.graph.captures)}
    return sorted(function.graph.variables, key=lambda variable: (order.get(id(variable.handle), -1), variable.name))


def _variables(function: Any) -> dict[str, Any]:
    variables = variables_of(function)
    names = [variable.name.partition(":")[0] for variable in variables]
    alone = names if len(set(names)) == len(names) else unique(names)
    return dict(zip(alone, variables, strict=True))


def _resources(function: Any, model: Any) -> list[Any]:
    """Return the tables and files of a model that a function reads."""
    from tensorflow.python.checkpoint.trackable_view import TrackableView

    read_here = {id(given) for given, _ in function.graph.captures}
    variables = {id(variable) for variable in function.graph.variables}
    try:
        parts = TrackableView(model).descendants()
    except Exception:  # noqa: BLE001 (a function holds no parts)
        return []
    handles = [(part, getattr(part, "resource_handle", None)) for part in parts if id(part) not in variables]
    return [part for part, handle in handles if handle is not None and id(handle) in read_here]
