"""1-D convolution with bias, 16 x 256 x 8192 to 256 channels, window 5, padding 8, dilation 4."""

import torch

DTYPE = "bfloat16"

BATCH = 16
IN_CHANNELS = 256
OUT_CHANNELS = 256
STEPS = 8192
KERNEL_SIZE = 5
PADDING = 8
DILATION = 4


class Model(torch.nn.Module):
    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, padding: int, dilation: int
    ) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(
            in_channels, out_channels, kernel_size=kernel_size, padding=padding, dilation=dilation
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, in, steps] -> [batch, out, steps]."""
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, IN_CHANNELS, STEPS)]


def get_init_inputs() -> list[object]:
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, PADDING, DILATION]
