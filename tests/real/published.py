"""Where the models lie, how a conversion is read, and one session under another's names."""

import importlib.util
from pathlib import Path

import pytest

from vitrify.checks.parity.tolerance import Tolerance
from vitrify.core.attestation import PARITY
from vitrify.core.protocols import Stateful

DEEP = Tolerance(rtol=1e-4, atol=1e-4)
"""Stated for outputs of deep networks: of the default, 1e-5, a few probes took up to 2.2 times as much."""


def published(package, *parts):
    """Return a file or directory of a package, which is not imported; skip where it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"needs the models of {package}")
    (folder,) = found.submodule_search_locations
    return Path(folder, *parts)


def proof(artifact):
    """Return the last parity report of a conversion."""
    (statement,) = [one for one in artifact.attestations if one.predicate_type == PARITY]
    return [report for report in statement.predicate["reports"] if report["check"] == "parity"][-1]


class Renamed:
    """A session under other names: one published model calls its inputs and outputs differently in each format."""

    def __init__(self, session, inputs, outputs):
        """Take new names, each with the session's own."""
        self._session, self._inputs, self._outputs = session, inputs, outputs
        own = session.signature
        self.signature = own.replace(
            inputs=tuple(own.input(old).replace(name=new) for new, old in inputs.items()),
            outputs=tuple(own.output(old).replace(name=new) for new, old in outputs.items()),
        )

    def run(self, inputs):
        answers = self._session.run({old: inputs[new] for new, old in self._inputs.items()})
        return {new: answers[old] for new, old in self._outputs.items()}

    def predict(self, data):
        return self.run(data)

    def reset(self):
        if isinstance(self._session, Stateful):
            self._session.reset()

    def close(self):
        self._session.close()
