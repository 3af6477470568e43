"""Which names may be trusted, by library: rules for :mod:`vitrify.pickles.generate`."""
