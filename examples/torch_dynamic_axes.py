"""A PyTorch module with a second dynamic dimension: saved as a program and safetensors, converted, both run."""

import numpy as np
import torch

import vitrify


class Pool(torch.nn.Module):
    """Embeds tokens and takes their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(100, 16)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embed(tokens).mean(dim=1))


torch.manual_seed(0)
tokens = torch.randint(0, 100, (4, 7))
artifact = vitrify.save(Pool(), "pool", example={"tokens": tokens}, dynamic={"tokens": {1: "length"}})
twin = vitrify.convert(artifact)
longer = {"tokens": torch.randint(0, 100, (2, 31))}
np.testing.assert_allclose(
    artifact.session().predict(longer)["output"], twin.session().predict(longer)["output"], rtol=1e-5, atol=1e-6
)
print(artifact.signature)
