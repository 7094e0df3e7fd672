"""RMS normalisation over the channels of NCHW, without weights."""

import torch
from torch import nn

BATCH = 16
CHANNELS = 64
SIDE = 64
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"BATCH": 2, "CHANNELS": 8, "SIDE": 8}


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + self.eps)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [1e-5]
