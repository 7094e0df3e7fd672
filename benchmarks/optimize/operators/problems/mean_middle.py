"""Mean over the middle of 64 x 2048 x 2048: a reduction across rows, with a batch."""

import torch

DTYPE = "float32"

BATCH = 64
ROWS = 2048
COLUMNS = 2048


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Mean of `x` [batch, rows, columns] along the rows -> [batch, columns]."""
        return torch.mean(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
