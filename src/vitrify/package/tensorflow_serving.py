"""A model base of TensorFlow Serving: ``NAME/VERSION/saved_model.pb`` ..., and ``models.config`` for its command line.

    tensorflow_model_server --model_config_file=models.config --allow_version_labels_for_unavailable_models

A saved model is written as it is. The artifact's digest lies in ``assets.extra``, which TensorFlow keeps for what users
put beside a model. Sources: https://www.tensorflow.org/tfx/serving/serving_config and
``tensorflow_serving/config/model_server_config.proto``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vitrify.core.document import DOCUMENT, GOLDEN
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.package._folder import new_folder, put
from vitrify.package._served import model_name, require_open, tag, version_number
from vitrify.package._text_proto import dump, map_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vitrify.artifacts.artifact import Artifact

CONFIG = "models.config"
FORMAT = "saved-model"
EXTRA = "assets.extra/vitrify.json"
BASE = "/models"
"""Where TensorFlow Serving's own image has its models."""

_OURS = frozenset({DOCUMENT, GOLDEN})


def export(artifact: Artifact, folder: Path, *, also: Sequence[Artifact] = (), base: str = BASE) -> None:
    """Write models, and the configuration that lists them.

    Args:
        artifact: The artifact.
        folder: The directory to make.
        also: More of them; those of one name are versions of one model, each with its tag as label.
        base: Where the server will find that directory.

    Raises:
        UnsupportedModelError: One is no saved model.
        UsageError: Something is there already, one is encrypted, or two versions have the same number.
        StoreError: The disk would not take it; nothing is left behind.
    """
    models: dict[str, dict[int, str]] = {}
    for one in (artifact, *also):
        _check(one, models)
    with new_folder(folder) as new:
        for one in (artifact, *also):
            place = f"{model_name(one)}/{version_number(one)}"
            for name in one.files.names():
                if name not in _OURS:
                    put(new, f"{place}/{name}", one.files.map(name))
            put(new, f"{place}/{EXTRA}", json.dumps({"digest": str(one.digest)}).encode() + b"\n")
        listed = [_model(name, versions, base) for name, versions in models.items()]
        put(new, CONFIG, dump({"model_config_list": {"config": listed}}))


def _check(artifact: Artifact, models: dict[str, dict[int, str]]) -> None:
    require_open(artifact, "TensorFlow Serving")
    if artifact.document.format != FORMAT or artifact.document.entry.get("file", "saved_model.pb") != "saved_model.pb":
        msg = f"{artifact} is {artifact.document.format}, and TensorFlow Serving loads whole saved models only"
        raise UnsupportedModelError(
            msg, remedy=f"convert it first: vitrify convert {artifact.name or artifact.digest} --to {FORMAT}"
        )
    name, number = model_name(artifact), version_number(artifact)
    versions = models.setdefault(name, {})
    if number in versions:
        msg = f"two artifacts want to be version {number} of {name!r}"
        raise UsageError(msg, remedy="give them tags that are different numbers or releases: churn:2, churn:1.2.0")
    versions[number] = tag(artifact)


def _model(name: str, versions: dict[int, str], base: str) -> dict[str, Any]:
    numbers = sorted(versions)
    labels = {versions[number]: number for number in numbers if versions[number] != str(number)}
    return {
        "name": name,
        "base_path": f"{base.rstrip('/')}/{name}",
        "model_platform": "tensorflow",
        "model_version_policy": {"specific": {"versions": numbers}},
        **({"version_labels": map_of(labels)} if labels else {}),
    }
