"""Divergence of 8192 x 32768 logits from a teacher's: two softmaxes become one number."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

TOKENS = 8192
WORDS = 32768


class Model(torch.nn.Module):
    def forward(self, student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        """Divergence of the softmax of `student` from that of `teacher` [tokens, words], a token
        -> []."""
        theirs = F.log_softmax(teacher, dim=-1)
        mine = F.log_softmax(student, dim=-1)
        return F.kl_div(mine, theirs, reduction="batchmean", log_target=True)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(TOKENS, WORDS), torch.randn(TOKENS, WORDS)]


def get_init_inputs() -> list[object]:
    return []
