"""Depthwise 2-D convolution, 16 x 64 x 512 x 512, window 3: one small filter a channel."""

import torch

BATCH = 16
CHANNELS = 64
HEIGHT = 512
WIDTH = 512
KERNEL_SIZE = 3


class Model(torch.nn.Module):
    def __init__(self, channels: int, kernel_size: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, channels, kernel_size, groups=channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, channels, height, width] -> [batch, channels, height - 2, width - 2]."""
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [CHANNELS, KERNEL_SIZE]


JUDGE = {"constants": {"HEIGHT": {"min": 3}, "WIDTH": {"min": 3}}}
