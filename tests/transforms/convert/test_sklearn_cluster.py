"""Clusterers and discriminants to ONNX: the nearest of some centres, also far away from all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import cluster, discriminant_analysis
from transforms.convert.proving import assert_proven, problems, proof, saved

CLUSTERERS = {
    "k-means": cluster.KMeans(3, n_init=1, random_state=0),
    "bisecting k-means": cluster.BisectingKMeans(5, random_state=0),
    "mean shift": cluster.MeanShift(bandwidth=2.0),
    "affinity propagation": cluster.AffinityPropagation(random_state=0),
}


@pytest.fixture(scope="module")
def rows(x):
    return x / [1, 10, 100, 0.01]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CLUSTERERS)
def test_a_clusterer_is_proven(name, dtype, rows, tmp_path):
    data = rows.astype(dtype)
    assert_proven(CLUSTERERS[name].fit(data), data, tmp_path)


def test_birch_goes_to_onnx_from_a_pickle_as_its_nodes_refer_to_each_other(rows, tmp_path):
    source = saved(cluster.Birch().fit(rows), rows, tmp_path / "source", "pickle")
    assert problems(source) == ()
    assert proof(source, tmp_path / "onnx", 600).verdict == "clean"


def test_a_clustering_without_a_centre_is_refused(tmp_path):
    lonely = cluster.MeanShift(bandwidth=2.0).fit(np.zeros((3, 2)))
    lonely.cluster_centers_ = np.zeros((0, 2))
    whole = saved(cluster.MeanShift(bandwidth=2.0).fit(np.zeros((3, 2))), np.zeros((3, 2)), tmp_path / "source")
    (problem,) = problems(replace(whole, native=lonely))
    assert "no centre" in problem.message


DISCRIMINANTS = {
    "linear": discriminant_analysis.LinearDiscriminantAnalysis(),
    "linear by least squares": discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "quadratic": discriminant_analysis.QuadraticDiscriminantAnalysis(),
    "quadratic, regularised": discriminant_analysis.QuadraticDiscriminantAnalysis(reg_param=0.1),
}


@pytest.fixture(scope="module")
def labels_of(binary, three):
    return {"binary": binary, "three": three}


@pytest.mark.parametrize("target", ["binary", "three"])
@pytest.mark.parametrize("name", DISCRIMINANTS)
def test_a_discriminant_is_proven(name, target, rows, labels_of, tmp_path):
    model = DISCRIMINANTS[name].fit(rows, labels_of[target])
    assert_proven(model, rows, tmp_path)
