"""What predicts of a fitted model: its coefficients, and what is done to the linear index.

Each expression is statsmodels' own, so that a predictor answers to the bit what the fitted results answer.

Source: ``statsmodels/genmod/families/links.py``, ``discrete/discrete_model.py``, ``miscmodels/ordinal_model.py``
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vitrify.core.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]

LINEAR = frozenset({"OLS", "WLS", "GLS", "GLSAR", "QuantReg", "RLM"})
"""Models whose prediction is the linear index itself."""

LINKED = frozenset({"GLM", "GEE"})
"""Models with a family and a link."""

COUNTS = frozenset({"Poisson", "NegativeBinomial", "NegativeBinomialP", "GeneralizedPoisson"})
BINARY = {"Logit": "Logit", "Probit": "Probit"}
CLASSES = LINEAR | LINKED | COUNTS | BINARY.keys() | {"MNLogit", "OrderedModel"}
"""The models that can be kept: what they predict for a row depends on that row alone."""

LINKS = frozenset(
    {
        *("Logit", "Probit", "Cauchy", "CLogLog", "LogLog", "Log", "LogC", "NegativeBinomial"),
        *("Power", "Identity", "InversePower", "InverseSquared", "Sqrt"),
    }
)
POWERS = frozenset({"Power", "Identity", "InversePower", "InverseSquared", "Sqrt"})
DISTRIBUTIONS = frozenset({"logistic", "norm"})


@dataclass(frozen=True)
class Predictor:
    """A fitted model, as far as it predicts.

    Attributes:
        model: The class of statsmodels that was fitted.
        params: Coefficients: (columns,), or (columns, classes - 1) of MNLogit.
        link: The inverse of this link is applied to the index.
        number: The link's own number: its power, or its alpha.
        thresholds: Of an ordered model, the ends of the classes but for the first and last.
        distribution: Of an ordered model's latent variable, by SciPy's name.
        labels: Of the classes, where there are several.
        columns: Of a formula, what each column of the matrix is taken from; empty text for the constant. None where
            the matrix is given as it is.
    """

    model: str
    params: Array
    link: str = "Identity"
    number: float = 1.0
    thresholds: Array | None = None
    distribution: str = ""
    labels: tuple[Any, ...] = ()
    columns: tuple[str, ...] | None = None

    def predict(self, exog: Any, offset: Any = None, exposure: Any = None) -> Array:
        """Return the mean of each row, or the probability of each class.

        Args:
            exog: (rows, columns), or a table with a formula's columns.
            offset: Added to the index.
            exposure: Its logarithm is added to the index.

        Raises:
            ModelError: The model takes no such thing.
        """
        index = np.dot(self._matrix(exog), self.params)
        if exposure is not None and not (self.model in COUNTS or self.link == "Log"):
            msg = f"a {self.model} with the link {self.link} takes no exposure"
            raise ModelError(msg, remedy="leave it out")
        added = [None if offset is None else np.asarray(offset), None if exposure is None else np.log(exposure)]
        for more in reversed(added) if self.model in COUNTS else added:
            index = index if more is None else index + more
        if self.model == "MNLogit":
            powers = np.column_stack((np.ones(len(index)), np.exp(index)))
            shares: Array = powers / powers.sum(1)[:, None]
            return shares
        if self.thresholds is not None:
            return self._between(index)
        return np.asarray(self.inverse()(index))

    def inverse(self) -> Callable[[Any], Any]:
        """Return the inverse of the link, as statsmodels has it."""
        from statsmodels.genmod.families import links

        if self.model == "Probit":
            from scipy import stats

            called: Callable[[Any], Any] = stats.norm._cdf  # noqa: SLF001 (what statsmodels calls)
            return called
        if self.link == "Power":
            found = links.Power(power=self.number)
        elif self.link == "NegativeBinomial":
            found = links.NegativeBinomial(alpha=self.number)
        else:
            found = getattr(links, self.link)()
        inverse: Callable[[Any], Any] = found.inverse
        return inverse

    def _matrix(self, exog: Any) -> Array:
        if self.columns is None:
            matrix = np.asarray(exog)
            single = matrix.ndim == 1 and len(self.params) == 1
            return np.atleast_2d(matrix[:, None] if single else matrix)
        table = {str(name): np.asarray(exog[name], np.float64) for name in exog}
        if missing := [name for name in self.columns if name and name not in table]:
            msg = f"the formula takes the columns {missing}, which are not there (there are: {list(table)})"
            raise ModelError(msg, remedy="give a data frame with the columns of the formula")
        rows = len(next(iter(table.values())))
        columns = np.stack([table[name] if name else np.ones(rows) for name in self.columns])
        return columns.T  # column after column in memory, as pandas has it: the order in which products are added

    def _between(self, index: Array) -> Array:
        from scipy import stats

        assert self.thresholds is not None
        cdf = getattr(stats, self.distribution).cdf
        ends = np.concatenate(([-np.inf], self.thresholds, [np.inf]))
        low, high = ends[:-1] - index[:, None], ends[1:] - index[:, None]
        shares: Array = np.maximum(cdf(high) - cdf(low), 0)
        return shares
