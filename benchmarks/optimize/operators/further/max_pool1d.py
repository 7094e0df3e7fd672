"""1-D max pooling, 32 x 128 x 65536, window 4, stride 2, padding 2, dilation 2."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 32
CHANNELS = 128
STEPS = 65536
WINDOW = 4
STRIDE = 2
PADDING = 2
DILATION = 2


class Model(torch.nn.Module):
    def __init__(self, window: int, stride: int, padding: int, dilation: int) -> None:
        super().__init__()
        self.window = window
        self.stride = stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maxima over dilated windows of `x` [batch, channels, steps]."""
        return F.max_pool1d(x, self.window, self.stride, self.padding, self.dilation)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, STEPS)]


def get_init_inputs() -> list[object]:
    return [WINDOW, STRIDE, PADDING, DILATION]


JUDGE = {"constants": {"STEPS": {"min": 7}}}
