"""What predicts of a fitted model of statsmodels, as values."""
