"""Drawings of a model's graph: as SVG, as a page to walk around in, and as text for a terminal.

``plan`` decides what is drawn, ``layout`` where; ``svg``, ``page`` and ``rails`` draw.
"""
