"""Computations that ONNX has no operator for, or none that is exact: functions, distances, searches, text."""
