"""Sum over 262144 rows of 1536: the gradient of a bias, a reduction to few elements."""

import torch

DTYPE = "bfloat16"

ROWS = 262144
COLUMNS = 1536


class Model(torch.nn.Module):
    def forward(self, gradient: torch.Tensor) -> torch.Tensor:
        """Sum of `gradient` [rows, columns] over the rows -> [columns]."""
        return gradient.sum(dim=0)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
