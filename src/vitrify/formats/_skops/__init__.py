"""The ``.skops`` file: archive, node, capture, audit, build; each a step between bytes and a live model."""
