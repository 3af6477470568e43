"""statsmodels: what was fitted, what is kept of it, and its graph predict the same; what is code or has a state is
refused.
"""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.genmod.families import links
from statsmodels.miscmodels.ordinal_model import OrderedModel

import vitrify
from vitrify import containers
from vitrify.core.document import SCHEMA, Document
from vitrify.core.errors import MalformedError, ModelError, UnsupportedModelError
from vitrify.core.plan import Step
from vitrify.core.protocols import Allow, Subject
from vitrify.formats._statsmodels.predictor import Predictor
from vitrify.formats.statsmodels import Statsmodels as Format
from vitrify.runtimes.onnxruntime import OnnxRuntime
from vitrify.runtimes.statsmodels import Statsmodels
from vitrify.testing.formats import FormatConformance
from vitrify.testing.runtimes import RuntimeConformance
from vitrify.testing.transforms import TransformConformance
from vitrify.transforms.convert.statsmodels_onnx import StatsmodelsToOnnx

RNG = np.random.default_rng(0)
X = sm.add_constant(RNG.normal(size=(120, 2)) * 0.4)
INDEX = X @ [0.3, 0.6, -0.4]
NOISE = RNG.normal(size=120)
SHARE = 1 / (1 + np.exp(-INDEX))
FLAG = (RNG.random(120) < SHARE).astype(float)
COUNT = RNG.poisson(np.exp(INDEX))
POSITIVE = np.exp(INDEX + NOISE * 0.1)
FRAME = pd.DataFrame({"a": X[:, 1], "b": X[:, 2], "y": INDEX + NOISE, "n": COUNT})
THREE = np.digitize(INDEX + NOISE, [0, 0.8])
ODD = np.array([[1, np.nan, 0], [1, 1e3, -1e3], [0, 0, 0], [1, 1e-20, -0.0], [1, np.inf, 1]])
STEP = Step(transform="", source="statsmodels", target="onnx", fidelity="numeric")
FAMILIES = sm.families


def glm(endog, family):
    return sm.GLM(endog, X, family=family).fit()


RESULTS = {
    "OLS": lambda: sm.OLS(INDEX + NOISE, X).fit(),
    "WLS": lambda: sm.WLS(INDEX + NOISE, X, weights=np.exp(NOISE)).fit(),
    "GLS": lambda: sm.GLS(INDEX + NOISE, X).fit(),
    "regularised": lambda: sm.OLS(INDEX + NOISE, X).fit_regularized(alpha=0.01),
    "QuantReg": lambda: sm.QuantReg(INDEX + NOISE, X).fit(q=0.3),
    "RLM": lambda: sm.RLM(INDEX + NOISE, X).fit(),
    "gaussian": lambda: glm(INDEX + NOISE, FAMILIES.Gaussian()),
    "binomial": lambda: glm(FLAG, FAMILIES.Binomial()),
    "probit link": lambda: glm(FLAG, FAMILIES.Binomial(links.Probit())),
    "cauchy": lambda: glm(FLAG, FAMILIES.Binomial(links.Cauchy())),
    "cloglog": lambda: glm(FLAG, FAMILIES.Binomial(links.CLogLog())),
    "loglog": lambda: glm(FLAG, FAMILIES.Binomial(links.LogLog())),
    "poisson": lambda: glm(COUNT, FAMILIES.Poisson()),
    "root": lambda: glm(POSITIVE, FAMILIES.Poisson(links.Sqrt())),
    "gamma": lambda: glm(POSITIVE, FAMILIES.Gamma(links.Log())),
    "inverse": lambda: glm(POSITIVE, FAMILIES.Gamma(links.InversePower())),
    "inverse gaussian": lambda: glm(POSITIVE, FAMILIES.InverseGaussian(links.Log())),
    "tweedie": lambda: glm(POSITIVE, FAMILIES.Tweedie(links.Power(power=0.7))),
    "negative binomial": lambda: glm(COUNT, FAMILIES.NegativeBinomial(alpha=0.7)),
    "GEE": lambda: sm.GEE(COUNT, X, groups=np.arange(120) // 4, family=FAMILIES.Poisson()).fit(),
    "Logit": lambda: sm.Logit(FLAG, X).fit(disp=0),
    "Probit": lambda: sm.Probit(FLAG, X).fit(disp=0),
    "Poisson": lambda: sm.Poisson(COUNT, X).fit(disp=0),
    "NegativeBinomial": lambda: sm.NegativeBinomial(COUNT, X).fit(disp=0),
    "GeneralizedPoisson": lambda: sm.GeneralizedPoisson(COUNT, X).fit(disp=0),
    "MNLogit": lambda: sm.MNLogit(THREE, X).fit(disp=0),
    "ordered logit": lambda: OrderedModel(THREE, X[:, 1:], distr="logit").fit(disp=0, method="bfgs"),
    "ordered probit": lambda: OrderedModel(THREE, X[:, 1:], distr="probit").fit(disp=0, method="bfgs"),
}


def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return RESULTS[name]()


def kept(results, example, memory):
    given = containers.example(example)
    written = Format().write(results, memory, given)
    document = Document(schema=SCHEMA, format="statsmodels", runtime="statsmodels", entry={}, signature=given.signature)
    outputs = Statsmodels().wrap(results, document).run(given.arrays)
    fields = Statsmodels().describe_outputs(results, outputs, written.entry)
    document = document.replace(signature=given.signature.replace(outputs=fields))
    return Subject(files=memory, document=document, golden=given.arrays)


def converted(subject, memory):
    assert StatsmodelsToOnnx().problems(subject, STEP) == ()
    sink = type(memory)()
    written = StatsmodelsToOnnx().apply(subject, STEP, sink)
    document = subject.document.replace(format="onnx", runtime="onnxruntime", entry=written.entry)
    return OnnxRuntime().wrap(onnx.load_from_string(sink.files["model.onnx"]), document)


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_kept_predicts_to_the_bit_and_its_graph_to_rounding(name, memory):
    results = fitted(name)
    x = X[:, 1:] if name.startswith("ordered") else X
    odd = ODD[:, 1:] if name.startswith("ordered") else ODD
    subject = kept(results, x, memory)
    graph, model = converted(subject, memory), Statsmodels().open(memory, subject.document, Allow())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (x, odd, x[:1]):
            want = np.asarray(results.predict(rows))
            [(output, have)] = model.run({"X": rows}).items()
            np.testing.assert_array_equal(have, want)
            np.testing.assert_allclose(graph.run({"X": rows})[output], want, rtol=1e-10, atol=1e-12)


def test_offset_and_exposure_are_inputs_of_their_own(memory):
    results = fitted("Poisson")
    example = {"exog": X, "offset": NOISE, "exposure": np.exp(NOISE)}
    subject = kept(results, example, memory)
    want = results.predict(**example)
    np.testing.assert_array_equal(
        Statsmodels().open(memory, subject.document, Allow()).run(example)["prediction"], want
    )
    np.testing.assert_allclose(converted(subject, memory).run(example)["prediction"], want, rtol=1e-12)


def test_a_formula_of_plain_columns_is_kept_and_matched_by_name(memory):
    results = smf.ols("y ~ b + a", FRAME).fit()
    subject = kept(results, FRAME[["a", "b"]], memory)
    rows = {"b": FRAME["b"].to_numpy(), "a": FRAME["a"].to_numpy()}
    want = results.predict(FRAME).to_numpy()
    np.testing.assert_array_equal(Statsmodels().open(memory, subject.document, Allow()).run(rows)["prediction"], want)
    np.testing.assert_allclose(converted(subject, memory).run(rows)["prediction"], want, rtol=1e-12)
    only = smf.ols("y ~ 1", FRAME).fit()
    other = type(memory)()
    graph = converted(kept(only, FRAME[["a"]], other), other)
    np.testing.assert_allclose(graph.run({"a": rows["a"]})["prediction"], np.full(120, only.params.iloc[0]), rtol=1e-12)


@pytest.mark.parametrize("formula", ["y ~ np.log(a + 10)", "y ~ a * b", "y ~ C(n) + a", "y ~ I(a ** 2) + np.exp(b)"])
def test_a_formula_that_computes_is_code_and_refused(formula, memory):
    with pytest.raises(UnsupportedModelError) as caught:
        Format().write(smf.ols(formula, FRAME).fit(), memory, None)
    assert all(problem.place == "formula" and problem.remedy for problem in caught.value.problems)


def test_a_model_with_a_state_is_refused(memory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = sm.tsa.AutoReg(NOISE, 2).fit()
    with pytest.raises(UnsupportedModelError, match="AutoReg"):
        Format().write(results, memory, None)


def test_a_link_of_the_user_is_code_and_refused(memory):
    class Mine(links.Log):
        pass

    with pytest.raises(UnsupportedModelError, match="is code"):
        Format().write(glm(COUNT, FAMILIES.Poisson(Mine())), memory, None)


def test_exposure_of_a_model_that_has_none_is_refused():
    with pytest.raises(ModelError, match="exposure"):
        Predictor("OLS", np.ones(2)).predict(np.ones((3, 2)), exposure=np.ones(3))


@given(
    st.dictionaries(
        st.sampled_from(["model", "link", "number", "distribution", "labels", "columns"]),
        st.one_of(st.none(), st.text(max_size=5), st.integers(), st.lists(st.text(max_size=3), max_size=3)),
        min_size=1,
    )
)
def test_whatever_the_file_says_it_is_read_or_refused(changes):
    import io
    import json

    from vitrify.core import arrays
    from vitrify.reading.files import HeldFiles

    state = {"statsmodels": 1, "model": "OLS", "link": "Identity", "number": 1.0, "distribution": "", "labels": []}
    stream = io.BytesIO()
    arrays.dump({"params": np.ones(3)}, stream)
    content = {
        "statsmodels.json": json.dumps({**state, "columns": None, **changes}).encode(),
        "params.npz": stream.getvalue(),
    }
    try:
        one = Format().read(HeldFiles({name: memoryview(data) for name, data in content.items()}), {}, Allow())
    except MalformedError:
        return
    assert isinstance(one, Predictor)


class TestFormat(FormatConformance):
    format = Format()

    def model(self):
        return fitted("MNLogit")

    def same(self, left, right):
        return np.array_equal(left.predict(X), right.predict(X))


class TestRuntime(RuntimeConformance):
    runtime, format = Statsmodels(), Format()

    def model(self):
        return fitted("binomial")

    def example(self):
        return X


class TestStatsmodelsToOnnx(TransformConformance):
    name = "statsmodels-to-onnx"

    def model(self):
        return fitted("MNLogit")

    def example(self):
        return X


def test_labels_of_classes_are_in_the_signature():
    artifact = vitrify.save(fitted("MNLogit"), "classes", example=X)
    assert artifact.signature.outputs[0].classes == ("0", "1", "2")
