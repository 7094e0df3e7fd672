"""Mean square of a whole tensor: one number."""

import torch
from torch import nn

ROWS = 2048
COLS = 4096
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"ROWS": 8, "COLS": 64}


class Model(nn.Module):
    def forward(self, x):
        return (x * x).mean()


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
