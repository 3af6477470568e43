"""TensorFlow Serving's model base: its own messages read the configuration, TensorFlow loads the model."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import vitrify
from vitrify import package
from vitrify.core.errors import UnsupportedModelError, UsageError
from vitrify.stores.oci_layout import OciLayout

READ = """
import json, sys
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2 as config
told = text_format.Parse(open(sys.argv[1]).read(), config.ModelServerConfig())
json.dump([
    [one.name, one.base_path, one.model_platform, list(one.model_version_policy.specific.versions),
     dict(one.version_labels)]
    for one in told.model_config_list.config
], sys.stdout)
"""


def listed(path):
    """Return what TensorFlow Serving's messages say; in a process of its own, since TensorFlow takes long to import."""
    pytest.importorskip("tensorflow_serving")
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_no_saved_model_is_refused_with_the_command_that_makes_one(churn, tmp_path):
    with pytest.raises(UnsupportedModelError, match="saved models only") as caught:
        package.export(churn, tmp_path / "out", "tensorflow-serving")
    assert "vitrify convert team/churn:1.2.0 --to saved-model" in caught.value.remedy
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a store with two versions of a saved model, which are two different functions."""
    tf = pytest.importorskip("tensorflow")
    store = OciLayout(tmp_path_factory.mktemp("saved"))
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)

    class Scale(tf.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = tf.Variable(factor)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def __call__(self, x):
            return {"y": x * self.factor}

    for tag, factor in (("1.2.0", 2.0), ("3", 3.0)):
        vitrify.save(Scale(factor), f"scale:{tag}", example={"x": rows}, store=store)
    return store


@pytest.mark.slow
def test_tensorflow_loads_each_version_and_the_server_s_messages_list_them(saved, tmp_path):
    import tensorflow as tf

    first, second = (vitrify.open(f"scale:{tag}", store=saved) for tag in ("1.2.0", "3"))
    package.export(first, tmp_path / "out", "tensorflow-serving", also=[second], base="/srv/models/")
    rows = np.ones((3, 2), np.float32)
    for number, artifact, factor in ((1002000, first, 2), (3, second, 3)):
        place = tmp_path / "out" / "scale" / str(number)
        loaded = tf.saved_model.load(str(place)).signatures["serving_default"]
        assert np.array_equal(loaded(x=tf.constant(rows))["y"], rows * factor)
        assert json.loads((place / "assets.extra" / "vitrify.json").read_text())["digest"] == str(artifact.digest)
    expected = ["scale", "/srv/models/scale", "tensorflow", [3, 1002000], {"1.2.0": 1002000}]
    assert listed(tmp_path / "out" / "models.config") == [expected]


@pytest.mark.slow
def test_a_saved_model_goes_to_triton_s_own_backend(saved, tmp_path):
    package.export(vitrify.open("scale:3", store=saved), tmp_path / "out", "triton")
    text = (tmp_path / "out" / "scale" / "config.pbtxt").read_text()
    assert 'name: "x"\n  data_type: TYPE_FP32\n  dims: 2' in text
    assert 'platform: "tensorflow_savedmodel"' in text
    assert (tmp_path / "out" / "scale" / "3" / "model.savedmodel" / "saved_model.pb").is_file()


@pytest.mark.slow
def test_two_versions_of_one_number_are_refused(saved, tmp_path):
    one = vitrify.open("scale:3", store=saved)
    with pytest.raises(UsageError, match="version 3"):
        package.export(one, tmp_path / "out", "tensorflow-serving", also=[one])
    assert not (tmp_path / "out").exists()
