"""Make the pickles of this folder: run by an interpreter that has an old release of scikit-learn.

    python -m venv old && old/bin/pip install scikit-learn==1.3.2 numpy==1.26.4 && old/bin/python make.py

Releases, each with a NumPy and a Python of its time: 0.19.2, 0.21.3, 0.22.2.post1, 0.24.2, 1.0.2, 1.1.3, 1.3.2, 1.5.2.
It writes a folder named after the release: the models that changed since, and what they said about the same data.
"""

import importlib
import json
import pathlib
import pickle
import warnings

import numpy as np
import sklearn

WANTED = {
    "0.19.2": "boosting forest functions grid gaps kd_tree logistic_apart one_hot tree",
    "0.21.3": "boosting forest functions histogram logistic_apart neighbours",
    "0.22.2.post1": "bayes calibrated gaussian stack support tfidf",
    "0.24.2": "columns isotonic kernel_pca ordinal poisson stochastic",
    "1.0.2": "ada grid least_squares one_hot",
    "1.1.3": "grid isolation polynomial tree",
    "1.3.2": "bag boosting imputer ridge",
    "1.5.2": "huber histogram selected",
}
METHODS = ("predict", "predict_proba", "transform", "score_samples")
ROWS = 6


def get(module, name, **parameters):
    return getattr(importlib.import_module("sklearn." + module), name)(**parameters)


def models():
    """Return a function for each model: most exist in some releases only."""
    small = {"n_estimators": 2, "max_depth": 2, "random_state": 0}
    text = ("a", get("preprocessing", "StandardScaler"), [0, 1])
    simple = ("linear_model", "LogisticRegression")
    return {
        "ada": lambda: get("ensemble", "AdaBoostClassifier", n_estimators=2, random_state=0),
        "bag": lambda: get("ensemble", "BaggingClassifier", n_estimators=2, random_state=0),
        "bayes": lambda: get("naive_bayes", "GaussianNB"),
        "boosting": lambda: get("ensemble", "GradientBoostingClassifier", **small),
        "calibrated": lambda: get("calibration", "CalibratedClassifierCV", cv=2),
        "columns": lambda: get("compose", "ColumnTransformer", transformers=[text], remainder="passthrough"),
        "forest": lambda: get("ensemble", "RandomForestClassifier", **small),
        "functions": lambda: get("preprocessing", "FunctionTransformer", func=np.log1p),
        "gaps": lambda: get("preprocessing", "Imputer"),
        "gaussian": lambda: get("gaussian_process", "GaussianProcessRegressor", alpha=0.1, optimizer=None),
        "grid": lambda: get("model_selection", "GridSearchCV", estimator=get(*simple), param_grid={"C": [1, 2]}, cv=2),
        "histogram": lambda: get("ensemble", "HistGradientBoostingRegressor", max_iter=2, random_state=0),
        "huber": lambda: get("ensemble", "GradientBoostingRegressor", loss="huber", **small),
        "imputer": lambda: get("impute", "SimpleImputer"),
        "isolation": lambda: get("ensemble", "IsolationForest", n_estimators=2, random_state=0),
        "isotonic": lambda: get("isotonic", "IsotonicRegression", out_of_bounds="clip"),
        "kd_tree": lambda: get("neighbors", "KNeighborsClassifier", algorithm="kd_tree"),
        "kernel_pca": lambda: get("decomposition", "KernelPCA", n_components=2, kernel="rbf"),
        "least_squares": lambda: get("cross_decomposition", "PLSRegression", n_components=2),
        "logistic_apart": lambda: get("linear_model", "LogisticRegression"),
        "neighbours": lambda: get("neighbors", "KNeighborsRegressor", algorithm="ball_tree"),
        "one_hot": lambda: get("preprocessing", "OneHotEncoder"),
        "ordinal": lambda: get("preprocessing", "OrdinalEncoder"),
        "poisson": lambda: get("linear_model", "PoissonRegressor"),
        "polynomial": lambda: get("preprocessing", "PolynomialFeatures"),
        "ridge": lambda: get("linear_model", "RidgeClassifier"),
        "selected": lambda: get("feature_selection", "SelectFromModel", estimator=get(*simple)),
        "stack": lambda: get("ensemble", "StackingClassifier", estimators=[("a", get(*simple))], cv=2),
        "stochastic": lambda: get("linear_model", "SGDClassifier", loss="log", random_state=0),
        "support": lambda: get("svm", "SVC", probability=True, random_state=0),
        "tfidf": lambda: get("feature_extraction.text", "TfidfVectorizer"),
        "tree": lambda: get("tree", "DecisionTreeRegressor", criterion="mse", max_depth=2, random_state=0),
    }


def data(name):
    """Return what a model is fitted to: the same numbers in every release."""
    X = np.random.RandomState(0).rand(40, 4)
    target = X[:, 0] * 2 + X[:, 1]
    if name == "tfidf":
        return ["red green blue", "green blue", "red red", "blue", "yellow red"] * 8, None
    if name == "isotonic":
        return X[:, 0], target
    if name in {"one_hot", "ordinal"}:
        return (X * 3).astype(int), None
    if name in {"gaps", "imputer"}:
        X[::7, 1] = np.nan
        return X, None
    if name in {"logistic_apart", "boosting"}:
        return X, (X[:, 0] * 3).astype(int)
    regression = ("tree", "gaussian", "histogram", "huber", "least_squares", "neighbours", "poisson")
    return X, target if name in regression else (X[:, 0] + X[:, 1] > 1).astype(int)


def main():
    warnings.simplefilter("ignore")
    if sklearn.__version__.startswith("0.21"):
        importlib.import_module("sklearn.experimental.enable_hist_gradient_boosting")
    folder = pathlib.Path(__file__).parent / sklearn.__version__
    folder.mkdir(exist_ok=True)
    said = {}
    for name in WANTED[sklearn.__version__].split():
        X, y = data(name)
        model = models()[name]()
        model = model.fit(X) if y is None else model.fit(X, y)
        (folder / (name + ".pkl")).write_bytes(pickle.dumps(model, protocol=3))
        answers = {}
        for method in METHODS:
            if hasattr(model, method):
                answer = getattr(model, method)(X)
                answer = answer.toarray() if hasattr(answer, "toarray") else answer
                answers[method] = np.asarray(answer)[:ROWS].tolist()
        said[name] = answers
    (folder / "said.json").write_text(json.dumps(said, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
