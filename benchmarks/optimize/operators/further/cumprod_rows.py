"""Running products along 8192 rows of 16384 values near 1: a scan that is no sum."""

import torch

DTYPE = "float32"

ROWS = 8192
COLUMNS = 16384


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inclusive running products of `x` [rows, columns] along the columns."""
        return torch.cumprod(x, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [1 + 0.01 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
