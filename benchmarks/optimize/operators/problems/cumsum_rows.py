"""Running sums along 4096 rows of 32768: a scan over contiguous elements."""

import torch

DTYPE = "float32"

ROWS = 4096
COLUMNS = 32768


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inclusive running sums of `x` [rows, columns] along the columns."""
        return torch.cumsum(x, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return []
