"""Layer normalisation of 16384 rows of 8192, with weight and bias."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

ROWS = 16384
COLUMNS = 8192
EPS = 1e-5


class Model(torch.nn.Module):
    def __init__(self, columns: int, eps: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns))
        self.bias = torch.nn.Parameter(torch.randn(columns))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [rows, columns], each row with mean 0 and variance 1, times weight, plus bias."""
        return F.layer_norm(x, (x.shape[-1],), self.weight, self.bias, self.eps)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return [COLUMNS, EPS]
