"""What older versions of scikit-learn, NumPy, SciPy, pandas and joblib wrote, in today's words."""
