"""Running sums from the end of 8192 rows of 16384: a scan against the order in memory."""

import torch

DTYPE = "float32"

ROWS = 8192
COLUMNS = 16384


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Sum of each element of `x` [rows, columns] and all after it in its row."""
        return x.flip(-1).cumsum(-1).flip(-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
