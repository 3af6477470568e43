"""LPIPS: weights of a perceptual distance, as pickles of PyTorch; they become safetensors, and no pickle is run."""

import numpy as np
import pytest

import vitrify
from real.published import published


@pytest.mark.parametrize("name", ["alex", "squeeze", "vgg"])
def test_the_weights_leave_their_pickle(shelf, name):
    torch = pytest.importorskip("torch")
    path = published("lpips", "weights", "v0.1", f"{name}.pth")
    assert vitrify.scan(path).verdict == "clean"
    artifact = vitrify.pack(path, store=shelf)
    assert artifact.document.format == "safetensors"
    theirs = torch.load(path, map_location="cpu", weights_only=True)
    ours = artifact.model()
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        np.testing.assert_array_equal(ours[key], value.numpy())
