"""2-D average pooling, 16 x 64 x 512 x 512, window 5, stride 2, padding 2."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 16
CHANNELS = 64
HEIGHT = 512
WIDTH = 512
WINDOW = 5
STRIDE = 2
PADDING = 2


class Model(torch.nn.Module):
    def __init__(self, window: int, stride: int, padding: int) -> None:
        super().__init__()
        self.window = window
        self.stride = stride
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Means over windows of `x` [batch, channels, height, width]; padding counts as zeros."""
        return F.avg_pool2d(x, self.window, self.stride, self.padding)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WINDOW, STRIDE, PADDING]
