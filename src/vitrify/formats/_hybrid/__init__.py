"""The parts of a hybrid artifact and how they hang together."""
