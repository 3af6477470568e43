"""What formats that are pickles have in common: a first look, a summary, and checks of native models."""
