"""PMML, written by ourselves: fitted models as the elements of PMML 4.4.

* ``elements``: XML as values, numbers to the last bit; ``fields``: columns, and what is computed from them;
* ``walk``: the register of writers, and the list of everything that has none;
* ``models``: the elements that predict; ``decisions``: labels from scores; ``document``: all of it as one document;
* one file a family of estimators: ``scaling``, ``encoding``, ``composing``, ``linear``, ``trees``, ``boosters`` ...

To teach it a new estimator, write a function in the file of its family::

    @writes("sklearn.Binarizer")
    def binarizer(walk: Walk, step: Any, table: Table) -> Answer:
        ...
        return Answer(table=...)

A missing value of PMML is NaN here: what computes with one gives one. Fields of float32 are PMML's ``float``; all other
numbers are ``double``, as PMML's ``integer`` has 32 bits.

Source: https://dmg.org/pmml/v4-4-1/
"""
