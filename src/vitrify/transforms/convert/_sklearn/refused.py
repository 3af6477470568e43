"""scikit-learn's transformers that no graph can hold, and why.

Source: ``sklearn/decomposition/_nmf.py``, ``preprocessing/_label.py``, ``feature_extraction/image.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse

if TYPE_CHECKING:
    from vitrify.transforms.convert._building.data import Data

_REASONS = {
    "MiniBatchNMF": (
        "starts from the mean of the batch, so that a row's answer depends on the rows beside it",
        "use NMF(solver='cd', tol=0)",
    ),
    "MultiLabelBinarizer": (
        "takes lists of different lengths, which are no array",
        "give the model one column of zeros and ones a label",
    ),
    "PatchExtractor": (
        "gives several rows for each image, and a model answers each row with one",
        "cut the images into patches before the model",
    ),
}


@converts(*(f"sklearn.{name}" for name in _REASONS))
def refused(steps: Steps, step: Any, data: Data) -> Outcome:  # noqa: ARG001 (a converter's)
    """Say why."""
    refuse(*_REASONS[type(step).__name__])
