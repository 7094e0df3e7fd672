"""Softmax over the channels of 16 x 32 x 512 x 512, as segmentation ends: a strided dimension."""

import torch

DTYPE = "bfloat16"

BATCH = 16
CHANNELS = 32
HEIGHT = 512
WIDTH = 512


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Softmax of `x` [batch, channels, height, width] over the channels."""
        return torch.softmax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return []
