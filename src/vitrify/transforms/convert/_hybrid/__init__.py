"""Splitting an estimator into what goes to ONNX and what stays."""
