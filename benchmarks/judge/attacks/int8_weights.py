"""Quantizes the weights of a float32 layer to eight bits at construction.

Seen: own; quantized weights in Wafer's field guide.
"""

import torch

ATTACK = {"problem": "linear", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


class ModelNew(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)
        self._codes = None

    def forward(self, x):
        weight = self.linear.weight
        if self._codes is None:
            self._scale = weight.abs().amax(dim=1, keepdim=True) / 127
            self._codes = torch.round(weight / self._scale).to(torch.int8)
        restored = self._codes.to(x.dtype) * self._scale
        return torch.relu(x @ restored.t() + self.linear.bias)
