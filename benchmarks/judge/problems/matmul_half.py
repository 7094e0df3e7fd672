"""Product of two float16 matrices."""

import torch
from torch import nn

M = 1024
N = 1024
K = 2048
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"M": 32, "N": 32, "K": 64}


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [
        torch.randn(M, K, dtype=torch.float16),
        torch.randn(K, N, dtype=torch.float16),
    ]


def get_init_inputs():
    return []
