"""Product of two large float32 matrices of uniform, so positive, values."""

import torch
from torch import nn

M = 4096
N = 4096
K = 4096
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"M": 32, "N": 32, "K": 64}


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.rand(M, K), torch.rand(K, N)]


def get_init_inputs():
    return []
