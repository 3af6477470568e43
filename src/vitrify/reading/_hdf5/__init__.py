"""The parts of an HDF5 file, a structure of its specification a module; :mod:`vitrify.reading.hdf5` joins them."""
