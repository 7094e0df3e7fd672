"""Mish, 8192 x 16384: one elementwise function with two transcendental steps."""

import torch
import torch.nn.functional as F

DTYPE = "float32"

ROWS = 8192
COLUMNS = 16384


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [rows, columns] times the hyperbolic tangent of its softplus."""
        return x * torch.tanh(F.softplus(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
