"""What a function that JAX exported holds, as values."""
