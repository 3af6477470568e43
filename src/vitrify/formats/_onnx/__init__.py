"""What the ONNX format is made of: its model as it is walked, what it says, what it could do, and its graph."""
