"""Product of two float32 matrices of uniform, so positive, values."""

import torch
from torch import nn

M = 1024
N = 1024
K = 1024
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"M": 32, "N": 32, "K": 64}


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(M, K), torch.rand(K, N)]


def get_init_inputs():
    return []
