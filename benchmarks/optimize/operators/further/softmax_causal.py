"""Causal softmax of scaled attention scores, 32 heads of 2048 x 2048: half of them are masked."""

import torch

DTYPE = "bfloat16"

HEADS = 32
QUERIES = 2048
KEYS = 2048
SCALE = 0.125


class Model(torch.nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Softmax over the keys of `scores` [heads, queries, keys] times the scale, where the key
        is no later than the query; 0 elsewhere."""
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        return torch.softmax((scores * self.scale).masked_fill(later, float("-inf")), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(HEADS, QUERIES, KEYS)]


def get_init_inputs() -> list[object]:
    return [SCALE]
