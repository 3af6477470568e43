"""PyTorch programs: traced, audited, written and read without unpickling."""
