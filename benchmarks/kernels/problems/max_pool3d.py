"""3-D max pooling, 16 x 32 x 128^3, window 3, stride 2, padding 1, dilation 3."""

import torch

BATCH = 16
CHANNELS = 32
DEPTH = 128
HEIGHT = 128
WIDTH = 128
KERNEL_SIZE = 3
STRIDE = 2
PADDING = 1
DILATION = 3


class Model(torch.nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int, dilation: int) -> None:
        super().__init__()
        self.pool = torch.nn.MaxPool3d(
            kernel_size, stride=stride, padding=padding, dilation=dilation
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, channels, depth, height, width] -> the same with smaller images."""
        return self.pool(x)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [KERNEL_SIZE, STRIDE, PADDING, DILATION]


# The dilated window spans 7, of which the padding supplies 2.
JUDGE = {"constants": {"DEPTH": {"min": 5}, "HEIGHT": {"min": 5}, "WIDTH": {"min": 5}}}
