"""An engine of the Portable Format for Analytics: compiles a document once into closures, and runs it row by row.

* ``types``: Avro's types, what belongs to them, what is promoted to what;
* ``signatures``: what a function of the library takes, and what it is in one call;
* ``compiler``: expressions, calls, functions; ``forms``, ``places`` and ``lazy`` are the language's own forms;
* ``library``: the functions, a file a family;
* ``engine``: cells and pools, and the bound on the work that one row may cause.

A document is data: it can compute, and nothing else. The methods ``emit`` and ``fold``, forms on bytes, cells that lie
in other files, and functions that the library lacks are refused when it is compiled, all at once.

Source: https://dmg.org/pfa/docs/
"""
