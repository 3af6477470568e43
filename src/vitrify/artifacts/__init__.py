"""The verbs that join a format, a store and a runtime.

``save`` seals a live model, ``pack`` a file; ``open_artifact`` verifies one and hands it out; ``load`` opens it
for prediction.
"""

from __future__ import annotations

from vitrify.artifacts.artifact import Artifact, open_artifact
from vitrify.artifacts.load import load
from vitrify.artifacts.save import save

__all__ = ["Artifact", "load", "open_artifact", "save"]
