"""What the formats that are HDF5 files have in common."""
