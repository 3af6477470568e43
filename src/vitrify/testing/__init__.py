"""For plugin authors: what each extension point promises, as test classes to subclass. They need pytest.

``FormatConformance``, ``RuntimeConformance`` and ``TransformConformance`` stand in ``formats``, ``runtimes`` and
``transforms``; ``stores``, ``containers``, ``checks`` and ``signers`` hold those of their points, ``lanes`` those of a
server's lanes. ``directory`` has a sink over a plain directory, to write with a format without a store.
"""
