"""The safetensors file: header, what can be written, writer and reader."""
