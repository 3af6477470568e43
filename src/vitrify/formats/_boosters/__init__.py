"""The gradient boosters' own files, parsed and checked before their libraries see them, and the objects around them."""
