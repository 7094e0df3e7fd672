"""Smooth L1 loss of 32768 x 8192, a mean for each row: squares near 0, absolute values beyond."""

import torch
import torch.nn.functional as F

DTYPE = "bfloat16"

ROWS = 32768
COLUMNS = 8192
BETA = 0.5


class Model(torch.nn.Module):
    def __init__(self, beta: float) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Mean over the columns of the loss of `predictions` against `targets` [rows, columns] ->
        [rows]."""
        loss = F.smooth_l1_loss(predictions, targets, reduction="none", beta=self.beta)
        return loss.mean(dim=-1)


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs() -> list[object]:
    return [BETA]
