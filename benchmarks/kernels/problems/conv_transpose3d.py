"""3-D transposed convolution, 16 x 32 x 16 x 32 x 32 to 64 channels, window 3, stride 2,
padding 1, dilation 2.

The window's taps are 2 apart and so are the images of neighbouring input elements, so only odd
output positions receive anything: 8 of 9 output elements are zero whatever the input.
"""

import torch

BATCH = 16
IN_CHANNELS = 32
OUT_CHANNELS = 64
DEPTH = 16
HEIGHT = 32
WIDTH = 32
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
DILATION = 2


class Model(torch.nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int,
        padding: int,
        dilation: int,
    ) -> None:
        super().__init__()
        self.conv = torch.nn.ConvTranspose3d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            bias=False,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, in, depth, height, width] -> [batch, out, 2 d + 1, 2 h + 1, 2 w + 1]."""
        return self.conv(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL_SIZE, STRIDE, PADDING, DILATION]
