"""A model as an OCI artifact on disk: its layout, and what can be wrong with it."""
