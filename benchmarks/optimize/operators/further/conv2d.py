"""2-D convolution with bias, 32 x 128 x 56 x 56 to 256 channels, window 3, padding 1."""

import torch

DTYPE = "bfloat16"

BATCH = 32
IN_CHANNELS = 128
OUT_CHANNELS = 256
HEIGHT = 56
WIDTH = 56
KERNEL_SIZE = 3
PADDING = 1


class Model(torch.nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, padding: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(
            in_channels, out_channels, kernel_size=kernel_size, padding=padding
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, in, height, width] -> [batch, out, height, width]."""
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, PADDING]
