"""Group normalisation of 32 images of 256 x 128 x 128, in 32 groups of channels."""

import torch

DTYPE = "bfloat16"

BATCH = 32
CHANNELS = 256
HEIGHT = 128
WIDTH = 128
GROUPS = 32


class Model(torch.nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(groups, channels)
        self.norm.weight = torch.nn.Parameter(torch.randn(channels))
        self.norm.bias = torch.nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, channels, height, width], each group of channels with mean 0 and variance
        1, times a weight and plus a bias a channel."""
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [GROUPS, CHANNELS]


JUDGE = {"constants": {"CHANNELS": {"min": 32, "multiple": 32}}}
