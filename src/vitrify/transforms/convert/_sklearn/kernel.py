"""scikit-learn's kernels as features: against known points, or approximated by random waves.

Source: ``sklearn/kernel_approximation.py``, ``decomposition/_kernel_pca.py``, ``preprocessing/_data.py``
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vitrify.transforms.convert._building.data import FLOATS, Data, matrix
from vitrify.transforms.convert._building.graph import F32, F64, Graph, Tensor
from vitrify.transforms.convert._building.steps import Outcome, Steps, converts, refuse
from vitrify.transforms.convert._numerics.kernels import pairwise_kernel
from vitrify.transforms.convert._sklearn.scale import in_place


def _kernel(graph: Graph, name: Any, x: Tensor, points: Any, settings: dict[str, Any]) -> Tensor:
    """Return (rows, points), in single precision if both are, else in double."""
    held = points.toarray() if hasattr(points, "toarray") else np.asarray(points)
    kind = F32 if x.dtype == F32 and held.dtype == F32 else F64
    return pairwise_kernel(graph, name, graph.cast(x, kind), held.astype(kind), **settings)


@converts("sklearn.Nystroem")
def nystroem(steps: Steps, step: Any, data: Data) -> Outcome:
    """The kernel against the chosen points, normalised."""
    graph, x = steps.graph, matrix(steps.graph, data)
    if not isinstance(step.kernel, str) or step.kernel == "precomputed":
        refuse("has a kernel that is Python code or precomputed", "use a kernel that has a name")
    values = _kernel(graph, step.kernel, x, step.components_, step._get_kernel_params())  # noqa: SLF001 (no public name)
    return Outcome(features=graph.matmul(values, np.asarray(step.normalization_).T))


@converts("sklearn.KernelPCA")
def kernel_pca(steps: Steps, step: Any, data: Data) -> Outcome:
    """The centred kernel against the training rows, projected."""
    graph, x = steps.graph, matrix(steps.graph, data)
    return Outcome(features=project_kernel(graph, step, x))


def project_kernel(graph: Graph, step: Any, x: Tensor) -> Tensor:
    """Return what a fitted KernelPCA makes of rows, or of their kernel where it was given that."""
    values = x
    if step.kernel != "precomputed":
        settings = {"gamma": step.gamma_, "degree": step.degree, "coef0": step.coef0}
        values = _kernel(graph, step.kernel, x, step.X_fit_, settings)
    values = centre(graph, step._centerer, values)  # noqa: SLF001 (no public name)
    some = np.flatnonzero(step.eigenvalues_)
    scaled = np.zeros_like(step.eigenvectors_)
    scaled[:, some] = step.eigenvectors_[:, some] / np.sqrt(step.eigenvalues_[some])
    return graph.matmul(values, scaled)


@converts("sklearn.KernelCenterer")
def kernel_centerer(steps: Steps, step: Any, data: Data) -> Outcome:
    """Centre a kernel against the training rows."""
    return Outcome(features=centre(steps.graph, step, matrix(steps.graph, data, FLOATS)))


def centre(graph: Graph, step: Any, values: Tensor) -> Tensor:
    """Return the kernel of rows whose images are centred at those of the training rows."""
    rows = np.asarray(step.K_fit_rows_)
    mean = graph.reduce("ReduceSum", values, 1, keep=True)
    mean = graph.binary("Div", mean, float(len(rows)))
    values = in_place(graph, "Sub", values, rows)
    values = in_place(graph, "Sub", values, mean)
    return in_place(graph, "Add", values, np.asarray(step.K_fit_all_))


def _waves(graph: Graph, step: Any, x: Tensor, size: float) -> Tensor:
    projection = graph.matmul(x, np.asarray(step.random_weights_))
    projection = in_place(graph, "Add", projection, np.asarray(step.random_offset_))
    return graph.binary("Mul", graph.unary("Cos", projection), size)


@converts("sklearn.RBFSampler")
def rbf_sampler(steps: Steps, step: Any, data: Data) -> Outcome:
    """Random waves."""
    x = matrix(steps.graph, data)
    return Outcome(features=_waves(steps.graph, step, x, (2.0 / step.n_components) ** 0.5))


@converts("sklearn.SkewedChi2Sampler")
def skewed_chi2_sampler(steps: Steps, step: Any, data: Data) -> Outcome:
    """Random waves of the logarithm."""
    graph, x = steps.graph, matrix(steps.graph, data, FLOATS)
    x = graph.unary("Log", graph.binary("Add", x, float(step.skewedness)))
    return Outcome(features=_waves(graph, step, x, float(np.sqrt(2.0) / np.sqrt(step.n_components))))


_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}
"""What ``sample_interval=None`` comes to, by the number of steps."""


@converts("sklearn.AdditiveChi2Sampler")
def additive_chi2_sampler(steps: Steps, step: Any, data: Data) -> Outcome:
    """Waves of the logarithm at fixed frequencies, in the type of the data."""
    graph, x = steps.graph, matrix(steps.graph, data)
    interval = float(step.sample_interval or _INTERVALS[step.sample_steps])
    nothing = graph.compare("Equal", x, np.zeros((), x.dtype))
    real = x if x.dtype.kind == "f" else graph.cast(x, F64)
    log = graph.binary("Mul", graph.unary("Log", real), interval)
    twice = graph.binary("Mul", x, np.asarray(2, x.dtype))  # in the type of the data: a large integer overflows
    double = graph.binary("Mul", twice if x.dtype.kind == "f" else graph.cast(twice, F64), interval)
    parts = [graph.unary("Sqrt", graph.binary("Mul", real, interval))]
    for number in range(1, step.sample_steps):
        width = graph.binary("Div", double, np.asarray(np.cosh(np.pi * number * interval)))
        turn = graph.binary("Mul", log, float(number))
        parts += [graph.binary("Mul", graph.unary("Sqrt", width), graph.unary(wave, turn)) for wave in ("Cos", "Sin")]
    zero = np.zeros((), x.dtype)
    return Outcome(features=graph.concat([graph.where(nothing, zero, graph.cast(part, x.dtype)) for part in parts]))


@converts("sklearn.PolynomialCountSketch")
def polynomial_count_sketch(steps: Steps, step: Any, data: Data) -> Outcome:
    """The product of sketches in the frequency domain; a sketch and its transform are one matrix product.

    The transform back takes the lower half of the frequencies, as the rest mirrors them.
    """
    graph = steps.graph
    if empty := step.n_components - np.count_nonzero(_reached(step)):
        message = (
            f"has {empty} of {step.n_components} columns that no product of inputs reaches: they hold rounding only"
        )
        refuse(message, "use fewer n_components, or a larger degree")
    x = graph.cast(graph.binary("Mul", matrix(graph, data), np.asarray(np.sqrt(step.gamma))), F64)
    real: Tensor | None = None
    imaginary: Tensor | None = None
    for columns, signs in zip(step.indexHash_, step.bitHash_, strict=True):
        sketch = np.zeros((len(columns), step.n_components))
        sketch[np.arange(len(columns)), columns] = signs
        if step.coef0 != 0:
            sketch[-1] *= np.sqrt(step.coef0)
        part = _transformed(graph, x, np.fft.rfft(sketch, axis=1), constant=step.coef0 != 0)
        if real is None or imaginary is None:
            real, imaginary = part
        else:
            real, imaginary = _complex_product(graph, (real, imaginary), part)
    assert real is not None
    assert imaginary is not None
    back = np.fft.irfft(np.eye(step.n_components // 2 + 1), step.n_components, axis=1)
    turned = np.fft.irfft(1j * np.eye(step.n_components // 2 + 1), step.n_components, axis=1)
    return Outcome(features=graph.binary("Add", graph.matmul(real, back), graph.matmul(imaginary, turned)))


def _reached(step: Any) -> Any:
    """Return which columns some product of inputs, one from each sketch, is counted in."""
    reached = np.arange(step.n_components) == 0
    for columns in step.indexHash_:
        reached = np.any([np.roll(reached, shift) for shift in np.unique(columns)], axis=0)
    return reached


def _transformed(graph: Graph, x: Tensor, weights: Any, *, constant: bool) -> tuple[Tensor, Tensor]:
    halves = (np.ascontiguousarray(weights.real), np.ascontiguousarray(weights.imag))
    real, imaginary = (graph.affine(x, half[:-1], half[-1]) if constant else graph.matmul(x, half) for half in halves)
    return real, imaginary


def _complex_product(graph: Graph, left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    products = [graph.binary("Mul", a, b) for a, b in ((left[0], right[0]), (left[1], right[1]))]
    crossed = [graph.binary("Mul", a, b) for a, b in ((left[0], right[1]), (left[1], right[0]))]
    return graph.binary("Sub", *products), graph.binary("Add", *crossed)
