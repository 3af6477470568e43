"""The GGUF file: its element types, its header, and how its tensors lie."""
