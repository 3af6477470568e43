"""Decompositions: products, pursuits and factorisations."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import cluster, cross_decomposition, decomposition, neighbors, neural_network
from sklearn.feature_extraction.image import PatchExtractor

SOME = np.random.default_rng(0).normal(size=(60, 6))

PRODUCTS = {
    "sparse components": decomposition.SparsePCA(3, random_state=0, max_iter=5),
    "sparse components by batches": decomposition.MiniBatchSparsePCA(3, random_state=0, max_iter=3),
    "neighbourhood components": neighbors.NeighborhoodComponentsAnalysis(2, random_state=0, max_iter=3),
    "partial least squares": cross_decomposition.PLSSVD(1),
    "mean pool": cluster.FeatureAgglomeration(3),
    **{
        f"{pool.__name__} pool": cluster.FeatureAgglomeration(3, pooling_func=pool)
        for pool in (np.max, np.min, np.sum, np.median)
    },
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:overflow|invalid value")
def test_a_product_is_the_sources(name, proven):
    proven(PRODUCTS[name].fit(SOME, SOME[:, 0] > 0), SOME)


def test_the_hidden_units_of_a_machine_are_the_sources(proven):
    x = 1 / (1 + np.exp(-SOME))
    proven(neural_network.BernoulliRBM(4, n_iter=2, random_state=0).fit(x), x)


CODES = {
    "pursuit": decomposition.DictionaryLearning(
        5, transform_algorithm="omp", transform_n_nonzero_coefs=2, random_state=0, max_iter=3
    ),
    "pursuit of a given dictionary": decomposition.SparseCoder(SOME[:8].copy(), transform_n_nonzero_coefs=3),
    "threshold": decomposition.DictionaryLearning(5, transform_algorithm="threshold", random_state=0, max_iter=3),
    "threshold, positive, split": decomposition.MiniBatchDictionaryLearning(
        5,
        transform_algorithm="threshold",
        positive_code=True,
        split_sign=True,
        fit_algorithm="cd",
        random_state=0,
        max_iter=3,
    ),
}


@pytest.mark.parametrize("name", CODES)
@pytest.mark.filterwarnings("ignore: Orthogonal matching pursuit", "ignore:Orthogonal matching pursuit")
def test_a_code_is_the_sources(name, proven):
    proven(CODES[name].fit(SOME), SOME)


@pytest.mark.parametrize("algorithm", ["lasso_cd", "lasso_lars", "lars"])
def test_a_code_by_an_iteration_is_refused(algorithm, problems):
    model = decomposition.SparseCoder(SOME[:5].copy(), transform_algorithm=algorithm)
    (finding,) = problems(model.fit(SOME), SOME)
    assert algorithm in finding.message


@pytest.mark.parametrize("options", [{}, {"alpha_W": 0.05, "l1_ratio": 0.5}], ids=["plain", "penalised"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_factorisation_that_does_all_its_rounds_is_the_sources(options, proven):
    x = np.abs(SOME)
    proven(decomposition.NMF(3, max_iter=60, random_state=0, **options).fit(x).set_params(tol=0), x)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_row_that_depends_on_the_rows_beside_it_is_refused(problems):
    x = np.abs(SOME)
    for model in (decomposition.NMF(3, random_state=0), decomposition.MiniBatchNMF(3, random_state=0)):
        (finding,) = problems(model.fit(x), x)
        assert "rows beside it" in finding.message
        assert "tol=0" in finding.remedy


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_the_topics_of_a_row_are_the_sources(kind, proven):
    x = np.random.default_rng(0).integers(0, 5, (40, 8)).astype(kind)
    proven(decomposition.LatentDirichletAllocation(3, max_iter=2, random_state=0).fit(x), x)


def test_what_gives_several_rows_for_one_is_refused(problems):
    images = np.arange(2 * 4 * 4.0).reshape(2, 4, 4)
    (finding,) = problems(PatchExtractor(patch_size=(2, 2)).fit(images), images)
    assert "rows" in finding.message
