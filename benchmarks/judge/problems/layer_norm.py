"""Layer normalisation with weight and bias."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 4096
COLS = 1024
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"ROWS": 8, "COLS": 64}


class Model(nn.Module):
    def __init__(self, columns, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))
        self.bias = nn.Parameter(torch.randn(columns))
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS, 1e-5]
