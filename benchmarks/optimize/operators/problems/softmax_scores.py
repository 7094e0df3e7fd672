"""Softmax of scaled attention scores with a bias, 32 heads of 2048 x 2048."""

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

    def forward(self, scores: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Softmax over the keys of `scores` [heads, queries, keys] times the scale, plus `bias`
        [queries, keys]."""
        return torch.softmax(scores * self.scale + bias, dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(HEADS, QUERIES, KEYS), torch.randn(QUERIES, KEYS)]


def get_init_inputs() -> list[object]:
    return [SCALE]
