"""Cross-entropy of 8192 tokens over 50304 words: a softmax of which one number is kept."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

TOKENS = 8192
WORDS = 50304


class Model(torch.nn.Module):
    def forward(self, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Loss of each row of `logits` [tokens, words] against `targets` int64 [tokens]."""
        return F.cross_entropy(logits, targets, reduction="none")


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, WORDS), torch.randint(0, WORDS, (TOKENS,))]


def get_init_inputs() -> list[object]:
    return []
