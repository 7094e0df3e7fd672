"""SwiGLU of 16384 tokens: one half of 22016 features gates the other."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

TOKENS = 16384
HIDDEN = 11008


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """SiLU of the first half of `x` [tokens, 2 hidden] times the second -> [tokens, hidden]."""
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, 2 * HIDDEN)]


def get_init_inputs() -> list[object]:
    return []
