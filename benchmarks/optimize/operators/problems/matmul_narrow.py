"""Matrix product with a short inner dimension, 16384 x 64 x 16384: bound by its output."""

import torch

DTYPE = "bfloat16"

M = 16384
N = 16384
K = 64


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """`a` [M, K] times `b` [K, N] -> [M, N]."""
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs() -> list[object]:
    return []
