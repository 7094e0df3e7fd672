"""3-D average pooling, 8 x 32 x 64 x 128 x 128, window 3, stride 2, padding 1."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 8
CHANNELS = 32
DEPTH = 64
HEIGHT = 128
WIDTH = 128
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
        """Means over windows of `x` [batch, channels, depth, height, width]; padding counts as
        zeros."""
        return F.avg_pool3d(x, self.window, self.stride, self.padding)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [WINDOW, STRIDE, PADDING]


JUDGE = {"constants": {"DEPTH": {"min": 3}, "HEIGHT": {"min": 3}, "WIDTH": {"min": 3}}}
