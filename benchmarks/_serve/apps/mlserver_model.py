"""MLServer's custom runtime; its adaptive batching puts the requests together before ``predict``."""

from __future__ import annotations

from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse
from onnx_file import OUTPUTS, OnnxFile


class OnnxModel(MLModel):
    async def load(self) -> bool:
        self.model = OnnxFile()
        return True

    async def predict(self, payload):
        outputs = self.model.run(NumpyCodec.decode_input(payload.inputs[0]))
        encoded = [NumpyCodec.encode_output(name, output) for name, output in zip(OUTPUTS, outputs, strict=True)]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=encoded)
