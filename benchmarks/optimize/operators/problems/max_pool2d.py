"""2-D max pooling, 32 x 128 x 256 x 256, window 3, stride 2, padding 1."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 32
CHANNELS = 128
HEIGHT = 256
WIDTH = 256
WINDOW = 3
STRIDE = 2
PADDING = 1


class Model(torch.nn.Module):
    def __init__(self, window: int, stride: int, padding: int) -> None:
        super().__init__()
        self.window = window
        self.stride = stride
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maxima over windows of `x` [batch, channels, height, width]."""
        return F.max_pool2d(x, self.window, self.stride, self.padding)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WINDOW, STRIDE, PADDING]
