"""Products of batches of matrices."""

import torch
from torch import nn

BATCH = 32
SIDE = 256
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"BATCH": 2, "SIDE": 32}


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, SIDE, SIDE), torch.randn(BATCH, SIDE, SIDE)]


def get_init_inputs():
    return []
