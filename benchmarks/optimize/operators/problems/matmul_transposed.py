"""Matrix product with a transposed first factor, 4096 x 4096 x 4096."""

import torch

DTYPE = "bfloat16"

M = 4096
N = 4096
K = 4096


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The transpose of `a` [K, M] times `b` [K, N] -> [M, N]."""
        return torch.matmul(a.T, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(K, M), torch.randn(K, N)]


def get_init_inputs() -> list[object]:
    return []
