"""Formats: what a model's files are, one file of this room a format.

A format answers four questions (:class:`vitrify.core.protocols.Format`): is this file yours, what is in it (without
running it), write this live model, read it again. The catalog names them; none is imported before it is used::

    from vitrify.core.catalog import catalog

    format = catalog().load("format", "skops")
    written = format.write(model, sink, example)  # names in ``written.names`` have to be allowed when it is read
    model = format.read(files, written.entry, Allow.of(written.names))

Three kinds of format. *Data*: ``skops``, ``xgboost``, ``lightgbm``, ``catboost``, ``torch-export``, ``safetensors`` and
``onnx`` construct what they were written to construct; a name in the file that is not trusted by default is refused
until the user allows it. *References*: ``python`` names a function or class whose source travels along. *Code*:
``pickle``, only when asked for, and marked as code for ever.

Every reader checks lengths, depths and indices before it uses them, and raises nothing but the errors of
:mod:`vitrify.core.errors`. Every writer lists all that it cannot keep at once, and gives the same bytes for the
same model.
"""
