"""What most targets do: honest files of some formats, changed in every way, looked at with their format.

What is changed is a file's bytes, or what lies behind its lengths and checksums, or it is spliced with another's.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from fuzz import _change, _layers, _look
from fuzz._run import Case

LARGE = 1 << 21
"""Bytes of a sample that is left out: most of it is numbers."""
SLOW = (
    *("keras/", "keras-h5/model", "keras-h5/functional", "keras-h5/nested", "keras-h5/weights", "saved-model/keras"),
    *("saved-model/assets", "saved-model/old", "tf-checkpoint/run", "tflite/quantised", "coreml/mlmodel"),
    *("coreml/pipeline", "orbax/", "openvino/", "mlflow-model/", "modelpack/vitrify", "torchscript/silero"),
)
"""Samples whose makers take seconds to import."""


@functools.cache
def samples(*formats, quick):
    """Return a case for each sample of these formats, small ones; where it has to be quick, none of the ``SLOW``."""
    from samples import samples as every

    found = []
    for name, make in every().items():
        if (kind := name.partition("/")[0]) in formats and not (quick and name.startswith(SLOW)):
            with tempfile.TemporaryDirectory() as folder:
                found.append(_look.case_at(make(Path(folder)), kind))
    return [case for case in found if 0 < case.size < LARGE]


def change(case, honest, chance, *, words=(), within=None):
    """Return the case with one of its files changed.

    Args:
        words: What the files' own language is made of.
        within: Changes what no layer knows (``Protocol Buffers``), and raises ValueError where it cannot.
    """

    def bytes_of(data):
        return _change.changed(data, chance, words)

    name = chance.choice(list(case.files))
    data, how = case.files[name], chance.random()
    if how < 0.4:
        data = bytes_of(data)
    elif how < 0.5:
        data = _change.spliced(data, chance.choice(list(chance.choice(honest).files.values())), chance)
    elif within is None:
        data = _layers.through(data, chance, bytes_of)
    else:
        try:
            data = within(data, chance, bytes_of)
        except ValueError:
            data = bytes_of(data)
    return Case(case.kind, {**case.files, name: data})


def check(case):
    """Ask the format that the files were of."""
    return _look.ask(_look.form(case.kind), case)
