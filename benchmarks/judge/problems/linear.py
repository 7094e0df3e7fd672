"""A linear layer and a ReLU."""

import torch
from torch import nn

BATCH = 1024
INPUTS = 1024
OUTPUTS = 512
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"BATCH": 16, "INPUTS": 32}


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(BATCH, INPUTS)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
