"""Attention with a bias for relative positions, written out: 8 x 16 heads of 1024 positions."""

import torch

DTYPE = "bfloat16"

BATCH = 8
HEADS = 16
POSITIONS = 1024
FEATURES = 64


class Model(torch.nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        """Attention over `q`, `k` and `v` [batch, heads, positions, features], with `bias` [heads,
        positions, positions] added to the scaled scores."""
        scores = torch.matmul(q, k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        return torch.matmul(torch.softmax(scores + bias, dim=-1), v)


def get_inputs() -> list[torch.Tensor]:
    q, k, v = (torch.randn(BATCH, HEADS, POSITIONS, FEATURES) for _ in range(3))
    return [q, k, v, torch.randn(HEADS, POSITIONS, POSITIONS)]


def get_init_inputs() -> list[object]:
    return []
