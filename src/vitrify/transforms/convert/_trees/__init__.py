"""Tree ensembles as ONNX has them: made, read, brought to an older operator, written out without one."""
