"""Instance normalisation of 16 images of 64 x 256 x 256: statistics a channel and image."""

import torch
import torch.nn.functional as F

DTYPE = "float32"

BATCH = 16
CHANNELS = 64
HEIGHT = 256
WIDTH = 256
EPS = 1e-5


class Model(torch.nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [batch, channels, height, width], each plane with mean 0 and variance 1."""
        return F.instance_norm(x, eps=self.eps)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs() -> list[object]:
    return [EPS]


JUDGE = {"constants": {"HEIGHT": {"min": 2}, "WIDTH": {"min": 2}}}
