"""What an ONNX Runtime model file holds, as values."""
