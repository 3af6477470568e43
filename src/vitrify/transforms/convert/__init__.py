"""Converters: from a framework's model to another format, one file a framework.

scikit-learn, XGBoost, LightGBM and CatBoost share one way to ONNX. ``EstimatorToOnnx`` walks through the model; a
converter function, found by the class of each estimator, copies the source's own expressions into the graph:

* ``_graph``: nodes with NumPy's promotion, so that a graph rounds where its source rounds; ``_model``: what is unused
  goes, versions are declared, ONNX checks it;
* ``_ports``: inputs keep the example's element types, outputs get the source's types, shapes and labels back;
* ``_data``: a matrix or the columns of a table, cast as ``check_array`` casts;
* ``_trees``: which leaf (TreeEnsemble), what is in it (a table), and the sum in the source's order;
* ``_steps``: the register of converters, and the list of everything that has none;
* ``_sklearn_*``: converters by family; a booster's stand in its own module, and work inside pipelines too.

To teach it a new estimator, write a function in the file of its family::

    @converts("sklearn.Binarizer")
    def binarizer(steps: Steps, step: Any, data: Data) -> Outcome:
        graph, x = steps.graph, matrix(steps.graph, data)
        return Outcome(features=graph.cast(graph.compare("Greater", x, step.threshold), x.dtype))

and a row in the table of its test. What it cannot do it says with ``refuse(message, remedy)``.
"""
