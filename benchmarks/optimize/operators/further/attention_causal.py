"""Causal attention of 4 x 32 heads of 2048 positions and 128 features."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 4
HEADS = 32
POSITIONS = 2048
FEATURES = 128


class Model(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention of `q` to the positions of `k` and `v` up to its own, all [batch, heads,
        positions, features]."""
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(BATCH, HEADS, POSITIONS, FEATURES) for _ in range(3)]


def get_init_inputs() -> list[object]:
    return []
