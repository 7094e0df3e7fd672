"""One query each of 32 sequences against 4096 cached keys: 8 key heads serve 4 query heads each."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

BATCH = 32
KEY_HEADS = 8
SHARING = 4
KEYS = 4096
FEATURES = 128


class Model(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Attention of `q` [batch, key heads * sharing, 1, features] to `k` and `v` [batch, key
        heads, keys, features]; neighbouring query heads share a key head."""
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def get_inputs() -> list[torch.Tensor]:
    q = torch.randn(BATCH, KEY_HEADS * SHARING, 1, FEATURES)
    k = torch.randn(BATCH, KEY_HEADS, KEYS, FEATURES)
    return [q, k, torch.randn(BATCH, KEY_HEADS, KEYS, FEATURES)]


def get_init_inputs() -> list[object]:
    return []
