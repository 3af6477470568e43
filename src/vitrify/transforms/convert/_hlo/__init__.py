"""StableHLO to ONNX, operation for operation."""
