"""Index of the largest of 65536, in 4096 rows: a reduction that carries a place along."""

import torch

DTYPE = "float32"

ROWS = 4096
COLUMNS = 65536


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Index of the largest element of `x` [rows, columns] in each row -> int64 [rows]."""
        return torch.argmax(x, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
