"""Attention of 16 x 16 heads of 512 queries to 1536 keys, 64 features."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 16
HEADS = 16
QUERIES = 512
KEYS = 1536
FEATURES = 64


class Model(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention of `q` [batch, heads, queries, features] to `k` and `v` [batch, heads, keys,
        features]."""
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs() -> list[torch.Tensor]:
    q = torch.randn(BATCH, HEADS, QUERIES, FEATURES)
    k = torch.randn(BATCH, HEADS, KEYS, FEATURES)
    return [q, k, torch.randn(BATCH, HEADS, KEYS, FEATURES)]


def get_init_inputs() -> list[object]:
    return []
