"""Converters of scikit-learn's estimators, a family a file."""
