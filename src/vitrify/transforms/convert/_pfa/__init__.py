"""An ONNX graph as PFA, a row at a time: :func:`.write.written`.

``document`` is what is written: statements and cells; ``rows`` what an operator gets and how it is registered. The
operators are in ``elementwise``, ``layout`` (what moves elements), ``groups`` (along an axis), ``normalise``,
``trees`` and ``encoders``.
"""
