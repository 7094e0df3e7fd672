"""Rotary position embedding of 8 x 32 heads of 4096 positions and 128 features."""

import torch

DTYPE = "bfloat16"

BATCH = 8
HEADS = 32
POSITIONS = 4096
HALF = 64


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Rotate `x` [batch, heads, positions, 2 half]: feature i with feature half + i, by the
        angles that `cos` and `sin` [positions, half] stand for."""
        first, second = x.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def get_inputs() -> list[torch.Tensor]:
    angles = torch.rand(POSITIONS, HALF) * 6.2831853
    return [torch.randn(BATCH, HEADS, POSITIONS, 2 * HALF), angles.cos(), angles.sin()]


def get_init_inputs() -> list[object]:
    return []
