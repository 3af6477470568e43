"""What the boosters say of themselves: trees, categories, features."""
