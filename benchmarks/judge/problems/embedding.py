"""Rows of a table by index."""

import torch
from torch import nn

TOKENS = 8192
WORDS = 16384
WIDTH = 128
# What Triton's interpreter runs in a second or two; the suite uses it where there is no GPU.
SMALL = {"TOKENS": 16, "WORDS": 64}


class Model(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, width))

    def forward(self, indices):
        return self.table[indices]


def get_inputs():
    return [torch.randint(0, WORDS, (TOKENS,))]


def get_init_inputs():
    return [WORDS, WIDTH]
