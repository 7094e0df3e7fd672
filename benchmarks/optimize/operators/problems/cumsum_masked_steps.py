"""Running sums of masked values over the steps of 32 x 4096 x 1024: a strided scan."""

import torch

DTYPE = "float32"

BATCH = 32
STEPS = 4096
FEATURES = 1024


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Inclusive running sums along the steps of `x` [batch, steps, features] where `mask`
        (bool, same shape) is true."""
        return torch.cumsum(x * mask, dim=1)


def get_inputs() -> list[torch.Tensor]:
    x = torch.randn(BATCH, STEPS, FEATURES)
    return [x, torch.randint(0, 2, (BATCH, STEPS, FEATURES)).bool()]


def get_init_inputs() -> list[object]:
    return []
