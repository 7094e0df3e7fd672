"""Depthwise convolution, window 3, padding 1, without bias."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 16
CHANNELS = 32
SIDE = 128
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"BATCH": 1, "CHANNELS": 4, "SIDE": 16}


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 3, 3))

    def forward(self, x):
        return F.conv2d(x, self.weight, padding=1, groups=self.weight.shape[0])


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS]
