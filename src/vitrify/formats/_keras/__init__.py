"""What Keras' two file formats have in common: a configuration as JSON, and weights as HDF5."""
