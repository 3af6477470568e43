"""Formats: what a model's files are, one file of this room a format.

A format answers three questions (:class:`vitrify.core.protocols.Format`): is this file yours, what is in it, could it
hurt. It answers them from the bytes alone: nothing in the file runs, and the library that makes such files need not
be installed. A format that is written from a live model and read into one is also ``Live``; one that holds a graph
``Drawn``; one that holds other files ``Holds``. The catalog names them; none is imported before it is used::

    from vitrify.core.catalog import catalog

    format = catalog().load("format", "skops")
    written = format.write(model, sink, example)  # names in ``written.names`` have to be allowed when it is read
    model = format.read(files, written.entry, Allow.of(written.names))

A format of directories answers for each file that its ``hazards`` opens (:meth:`.Files.map`, ``read`` or ``path``);
the others are scanned one by one, as what they are. So it opens those whose bytes it has judged, and no others.

Every reader checks lengths, depths and indices before it uses them, and raises nothing but the errors of
:mod:`vitrify.core.errors`. Every writer lists all that it cannot keep at once, and gives the same bytes for the
same model.

What ``describe`` returns is JSON. These keys mean the same in every format, and each is there where the file says it;
:mod:`._facts` makes them:

* ``producer`` (text), ``versions`` (of libraries, of the format, of operator sets: name to version);
* ``inputs``, ``outputs``: list of ``name``, ``type`` (an element type as NumPy calls it, where it has it), ``shape``;
* ``tensors``: list of ``name``, ``type``, ``shape``, ``bytes``; ``parameters``, ``bytes``, ``precision``: totals;
* ``operators``: name to count;
* ``quantisation``, ``license``, ``classes``, ``class`` (of the model), ``library``, ``metadata`` (the file's own keys);
* ``needs``: what has to be installed or allowed to run it, as a list of text;
* ``code``: true where using it runs code that is in it.

All other keys are the format's own.
"""
