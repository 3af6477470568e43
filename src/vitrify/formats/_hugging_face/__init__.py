"""A Hugging Face directory: its layout, what it says, and what in it could run."""
