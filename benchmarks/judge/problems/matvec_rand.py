"""Product of a bfloat16 matrix and a vector of uniform values: close to a constant."""

import torch
from torch import nn

ROWS = 1024
COLS = 65536
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"ROWS": 8, "COLS": 4096}


class Model(nn.Module):
    def forward(self, a, v):
        return a @ v


def get_inputs():
    return [
        torch.rand(ROWS, COLS, dtype=torch.bfloat16),
        torch.rand(COLS, 1, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return []
