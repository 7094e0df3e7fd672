"""Matrix-vector product, 2048 x 1048576: few long rows, bound by reading the matrix once."""

import torch

M = 2048
K = 1048576


class Model(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """`a` [M, K] times `b` [K, 1] -> [M, 1]."""
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(M, K), torch.rand(K, 1)]


def get_init_inputs() -> list[object]:
    return []
