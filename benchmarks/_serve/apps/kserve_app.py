"""KServe's Python server; it has no batching of its own (that is a sidecar in a cluster)."""

from __future__ import annotations

import sys

from kserve import InferOutput, InferResponse, Model, ModelServer
from onnx_file import OUTPUTS, SPEC, OnnxFile

TYPES = [output["datatype"] for output in SPEC["outputs"]]


class OnnxModel(Model):
    def load(self) -> bool:
        self.model = OnnxFile()
        self.ready = True
        return self.ready

    def predict(self, payload, headers=None):  # noqa: ARG002 (KServe gives it)
        answered = []
        for name, kind, output in zip(OUTPUTS, TYPES, self.model.run(payload.inputs[0].as_numpy()), strict=True):
            one = InferOutput(name=name, shape=list(output.shape), datatype=kind)
            one.set_data_from_numpy(output, binary_data=False)
            answered.append(one)
        return InferResponse(response_id=payload.id or "1", model_name=self.name, infer_outputs=answered)


if __name__ == "__main__":
    served = OnnxModel(SPEC["name"])
    served.load()
    ports = {"http_port": int(sys.argv[1]), "grpc_port": int(sys.argv[2])}
    ModelServer(**ports, workers=1, enable_docs_url=False, access_log_format=None).start([served])
