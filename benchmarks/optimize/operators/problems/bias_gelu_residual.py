"""A bias, GELU and a residual, 16384 x 8192: three elementwise steps in a row."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

ROWS = 16384
COLUMNS = 8192


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """`x` [rows, columns] + `bias` [columns], its exact GELU, + `residual` [rows, columns]."""
        return F.gelu(x + bias) + residual


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
