"""Batch normalisation in training of 64 images of 256 x 112 x 112: statistics a channel."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 64
CHANNELS = 256
HEIGHT = 112
WIDTH = 112
EPS = 1e-5


class Model(torch.nn.Module):
    def __init__(self, channels: int, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(channels))
        self.bias = torch.nn.Parameter(torch.randn(channels))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, channels, height, width], each channel with mean 0 and variance 1 over the
        whole batch, times a weight and plus a bias a channel."""
        return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [CHANNELS, EPS]


JUDGE = {"constants": {"HEIGHT": {"min": 2}, "WIDTH": {"min": 2}}}
