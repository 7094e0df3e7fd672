"""Two-dimensional max pooling, window 3, stride 2, padding 1."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 16
CHANNELS = 32
SIDE = 128
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"BATCH": 1, "CHANNELS": 1, "SIDE": 16}


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 3, stride=2, padding=1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return []
