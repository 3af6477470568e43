"""Converters: one file a road, named by where it leads from and to; what they build with lies in folders.

scikit-learn, XGBoost, LightGBM and CatBoost share one way to ONNX. ``EstimatorToOnnx`` walks through the model; a
converter function, found by the class of each estimator, copies the source's own expressions into the graph:

* ``_building``: the graph with NumPy's promotion, so that it rounds where its source rounds; the data that flows
  through it; its ports, which keep the example's element types and give labels back; the register of converters, and
  the list of everything that has none;
* ``_numerics``: functions, distances and searches that ONNX lacks, or has no exact operator for;
* ``_trees``: tree ensembles as one operator, written out without it, or brought to the operator before it;
* ``_sklearn``: converters, a family a file; ``_boosters``: what the boosters say of themselves;
* ``_trace``: functions and classes of the user's own, written in NumPy, are called with stand-ins for their data;
* ``_hybrid``: what cannot go to ONNX in the middle of a pipeline stays as it is;
* ``_clean``: every transform that writes ONNX ends with ``cleaning.clean`` and ``cleaning.provenance``;
* ``_hlo``, ``_pmml``, ``_pfa``: StableHLO read, PMML and PFA written.

A transform that starts from an ONNX artifact carries on what ``_onnx_source.ports`` returns.

To teach it a new estimator, write a function in the file of its family::

    @converts("sklearn.Binarizer")
    def binarizer(steps: Steps, step: Any, data: Data) -> Outcome:
        graph, x = steps.graph, matrix(steps.graph, data)
        return Outcome(features=graph.cast(graph.compare("Greater", x, step.threshold), x.dtype))

and a row in the table of its test. What it cannot do it says with ``refuse(message, remedy)``.
"""
