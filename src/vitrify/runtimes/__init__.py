"""One file a runtime: opens an artifact's files and predicts."""
