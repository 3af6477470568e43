"""Save the file as MLflow's own ONNX flavor, which ``mlflow models serve`` serves."""

from __future__ import annotations

import sys

import mlflow.onnx
import onnx
from onnx_file import FOLDER

mlflow.onnx.save_model(
    onnx.load(FOLDER / "model.onnx"),
    sys.argv[1],
    onnx_session_options={"intra_op_num_threads": 1, "inter_op_num_threads": 1},
    pip_requirements=[],
)
