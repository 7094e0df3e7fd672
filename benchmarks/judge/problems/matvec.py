"""Product of a matrix and a vector."""

import torch
from torch import nn

ROWS = 2048
COLS = 16384
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"ROWS": 8, "COLS": 128}


class Model(nn.Module):
    def forward(self, a, v):
        return a @ v


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(COLS, 1)]


def get_init_inputs():
    return []
