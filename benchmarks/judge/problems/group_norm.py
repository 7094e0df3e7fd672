"""Group normalisation with weight and bias."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 16
CHANNELS = 64
SIDE = 64
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"BATCH": 2, "CHANNELS": 8, "SIDE": 8}


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.randn(channels))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return F.group_norm(x, self.groups, self.weight, self.bias, 1e-5)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [4, CHANNELS]
