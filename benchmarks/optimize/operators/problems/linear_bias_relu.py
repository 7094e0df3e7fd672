"""Linear layer with bias and ReLU, 8192 x 4096 to 4096."""

import torch

DTYPE = "bfloat16"

ROWS = 8192
IN_FEATURES = 4096
OUT_FEATURES = 4096


class Model(torch.nn.Module):
    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x` [rows, in] times the weight's transpose, plus bias, negatives zero -> [rows, out]."""
        return torch.relu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(ROWS, IN_FEATURES)]


def get_init_inputs() -> list[object]:
    return [IN_FEATURES, OUT_FEATURES]
