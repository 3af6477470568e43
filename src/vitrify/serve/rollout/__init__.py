"""Rollout: which version answers, and how a new one takes over.

A route says how the requests of one model are shared among its versions; requests with a key stay with one version. A
shadow sees copies of the requests, and its answers are compared with those that were given. A canary takes over step by
step: before each step it is held against the old version (errors, latency, what is predicted), and it is taken back at
once when it is surely worse.

``shares`` is the arithmetic, ``rollout`` what the server asks. ``judging`` and ``drift`` decide about a canary whose
``samples`` were seen, ``canaries`` acts on it; ``shadow`` copies, and ``comparing`` compares. ``state`` is what was
changed while the server ran, ``wanted`` what follows from it and from the settings, ``applying`` makes it so;
``tagged`` are routes in the registry, and ``recorded`` is the engine that remembers what it was told.
"""
