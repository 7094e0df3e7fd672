"""Batched matrix product, 64 times 1024 x 1024 x 1024."""

import torch

DTYPE = "bfloat16"

BATCH = 64
M = 1024
N = 1024
K = 1024


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """`a` [batch, M, K] times `b` [batch, K, N] -> [batch, M, N]."""
        return torch.bmm(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs() -> list[object]:
    return []
