"""Which names may be trusted, by library: rules for :mod:`vitrify.pickles.generate`, which asks the libraries for them."""
