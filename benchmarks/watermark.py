"""What a watermark survives: a network trained on scikit-learn's digits, marked, and what copies go through.

Accuracy is on rows that were held back. A cell is the p-value's bound, or "lost"; the id has to be read right as well.
"""

from __future__ import annotations

import os
import tempfile

import ml_dtypes
import numpy as np
import torch
from sklearn.datasets import load_digits

from vitrify.transforms.protect import ProtectKey, _mark
from vitrify.transforms.protect.watermark import detect_in, payload_of

ID = "acme-042"
KEY = ProtectKey(bytes(range(32)))
STRENGTHS = (1, 3, 5)
random = np.random.default_rng(0)

digits = load_digits()
X, Y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
TRAIN, TEST = slice(0, 1400), slice(1400, None)


def network():
    torch.manual_seed(0)
    layers = (torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU())
    return torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))


def train(model, steps, rate, optimizer=torch.optim.SGD):
    step = optimizer(model.parameters(), lr=rate)
    for number in range(steps):
        rows = torch.randperm(1400, generator=torch.Generator().manual_seed(number))[:64]
        step.zero_grad()
        torch.nn.functional.cross_entropy(model(X[TRAIN][rows]), Y[TRAIN][rows]).backward()
        step.step()
    return model


def arrays(model):
    return [value.detach().numpy().copy() for value in model.state_dict().values()]


def loaded(values):
    model = network()
    names = model.state_dict().keys()
    model.load_state_dict(
        {name: torch.tensor(np.asarray(value, np.float32)) for name, value in zip(names, values, strict=True)}
    )
    return model


def accuracy(model):
    with torch.no_grad():
        return float((model(X[TEST]).argmax(1) == Y[TEST]).float().mean())


def pruned(share):
    def change(value):
        return np.where(np.abs(value) < np.quantile(np.abs(value), share), 0, value)

    return change


def rounded(bits):
    def change(value):
        scale = np.abs(value).max() / (2 ** (bits - 1) - 1)
        return np.round(value / scale) * scale

    return change


def noisy(share):
    return lambda value: value * (1 + share * random.normal(size=value.shape))


def tuned(steps, rate, optimizer=torch.optim.SGD):
    return lambda values: arrays(train(loaded(values), steps, rate, optimizer))


def through_onnx(values):
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VITRIFY_HOME"] = folder
        import vitrify

        vitrify.save(loaded(values).eval(), "m", example=X[:20])
        onnx = vitrify.convert("m", to="onnx")
        copy = vitrify.convert(onnx, to="safetensors", fidelity="lossy").model()
        return [np.array(value) for value in copy.values()]


def each(change):
    return lambda values: [change(value) for value in values]


CHANGES = {
    "a copy": lambda values: values,
    "torch to ONNX to safetensors": through_onnx,
    "other order, names, shapes": lambda values: [random.permutation(v.reshape(-1)) for v in reversed(values)],
    "one layer of three alone": lambda values: values[2:4],
    "cast to float16": each(lambda value: value.astype(np.float16)),
    "cast to bfloat16": each(lambda value: value.astype(ml_dtypes.bfloat16)),
    "noise of 0.01 % of each weight": each(noisy(1e-4)),
    "noise of 0.1 % of each weight": each(noisy(1e-3)),
    "noise of 1 % of each weight": each(noisy(1e-2)),
    "10 % pruned": each(pruned(0.1)),
    "50 % pruned": each(pruned(0.5)),
    "quantised to 16 bits": each(rounded(16)),
    "quantised to 8 bits": each(rounded(8)),
    "another mark over it, by another key": each(
        lambda value: _mark.marked(value, b"other" * 6, payload_of("them"), 1)
    ),
    "10 steps of training on, rate 0.001": tuned(10, 1e-3),
    "100 steps of training on, rate 0.01": tuned(100, 1e-2),
    "100 steps of Adam, rate 0.001": tuned(100, 1e-3, torch.optim.Adam),
}

trained = train(network(), 1500, 1e-3, torch.optim.Adam)
weights = arrays(trained)
secret = KEY.derive("mark")
marks = {
    strength: [_mark.marked(value, secret, payload_of(ID), strength) for value in weights] for strength in STRENGTHS
}
print(f"weights: {sum(value.size for value in weights):,}; accuracy before: {accuracy(trained):.4f}")
print("| | " + " | ".join(f"strength {strength}" for strength in STRENGTHS) + " |")
print("| --- |" + " --- |" * len(STRENGTHS))
print("| largest change of a weight | " + " | ".join(f"{np.expm1(_mark.step_of(s)):.2%}" for s in STRENGTHS) + " |")
print("| accuracy after | " + " | ".join(f"{accuracy(loaded(marks[s])):.4f}" for s in STRENGTHS) + " |")
for name, change in CHANGES.items():
    cells = []
    for strength in STRENGTHS:
        copy = change([value.copy() for value in marks[strength]])
        found = detect_in(lambda copy=copy: (value for value in copy if value.size >= _mark.MIN_ELEMENTS), KEY)
        right = found.present and found.id == ID
        cells.append(f"1e{found.log10_p:.0f}" if right else "lost")
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
KEYS = 2000
agreed = [
    _mark.log10_p(_mark.agreement(marks[1], number.to_bytes(32, "big"), 1).exponent(payload_of(ID)), known=True)
    for number in range(KEYS)
]
print(f"other keys, of {KEYS}: {sum(p < -1 for p in agreed)} below 0.1, smallest p-value 1e{min(agreed):.1f}")
