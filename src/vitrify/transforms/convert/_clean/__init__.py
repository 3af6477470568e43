"""The clean-up after every conversion to ONNX."""
