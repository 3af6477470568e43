"""Checks: questions about artifacts, answered by a report that says clean, found, or not checked.

``parity`` holds a model against the one it was made from, over samples and probes made to break it; it gates every
conversion. ``replay`` runs the golden samples in an artifact again. ``verify`` hashes every byte, then replays::

    from vitrify.checks.parity import Parity, Tolerance, compare_sessions
    from vitrify.checks.parity.picture import html, svg, text
    from vitrify.checks.replay import Replay, replay_session
    from vitrify.checks.verify import verify

A check finds faults and raises none; whoever gates on it raises :class:`vitrify.core.errors.CheckFailedError`.
Authors of checks find a conformance suite in :mod:`vitrify.testing.checks`.
"""
