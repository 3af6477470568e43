"""Naive Bayes as ``RegressionModel``: the joint log likelihoods are linear, and their softmax is the posterior.

PMML's own ``NaiveBayesModel`` multiplies probabilities, which underflow far away from every class.

Source: ``sklearn/naive_bayes.py``
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.transforms.convert._pmml.elements import apply, constant, reference
from vitrify.transforms.convert._pmml.fields import F64
from vitrify.transforms.convert._pmml.linear import classified, tables_of
from vitrify.transforms.convert._pmml.matrices import above, matrix, names
from vitrify.transforms.convert._pmml.walk import Answer, Walk, writes

if TYPE_CHECKING:
    from vitrify.transforms.convert._pmml.fields import Table


@writes("sklearn.GaussianNB")
def gaussian_nb(walk: Walk, model: Any, table: Table) -> Answer:
    """The squared distances to each class's mean, weighed by its variance."""
    columns, count = matrix(walk.fields, table), len(model.classes_)
    squares: list[str] = []
    weights = np.zeros((count, count * len(columns)))
    for place in range(count):
        for at, column in enumerate(columns):
            apart = apply("-", reference(column.name), constant(float(model.theta_[place, at])))
            weights[place, len(squares)] = -0.5 / model.var_[place, at]
            squares.append(walk.fields.derive(f"square({column.name})", F64, apply("*", apart, apart)).name)
    start = np.log(model.class_prior_) - 0.5 * np.sum(np.log(2.0 * np.pi * model.var_), axis=1)
    return classified(walk.fields, squares, tables_of(weights, start), model.classes_)


@writes("sklearn.MultinomialNB", "sklearn.ComplementNB")
def multinomial_nb(walk: Walk, model: Any, table: Table) -> Answer:
    """Counts times log probabilities."""
    plain = type(model).__name__ == "MultinomialNB" or len(model.classes_) == 1
    start = model.class_log_prior_ if plain else np.zeros(len(model.classes_))
    columns = names(matrix(walk.fields, table))
    return classified(walk.fields, columns, tables_of(model.feature_log_prob_, start), model.classes_)


@writes("sklearn.BernoulliNB")
def bernoulli_nb(walk: Walk, model: Any, table: Table) -> Answer:
    """Present and absent features."""
    columns = matrix(walk.fields, table)
    if model.binarize is not None:
        limit = float(model.binarize)
        columns = [above(walk.fields, one, limit, F64) for one in columns]
    absent = np.log(1 - np.exp(model.feature_log_prob_))
    tables = tables_of(model.feature_log_prob_ - absent, model.class_log_prior_ + absent.sum(axis=1))
    return classified(walk.fields, names(columns), tables, model.classes_)
